"""The built-in translator: a small encoder-decoder that learns Spanish from the phrase book in about a minute."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from glassformer.data.phrase_book import courtesies, split_phrase_book
from glassformer.data.phrases.words import SentencePair
from glassformer.models.seq2seq import Seq2Seq, Seq2SeqConfig
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.loop import train
from glassformer.training.recipe import Recipe
from glassformer.training.step import Log
from glassformer.training.text_pairs import NEXT_TARGET_TOKEN, encode_pairs, pair_batches

TRAINING, HELD_OUT = 60_000, 500  # sentence pairs
STEPS = 700
VOCABULARY, TOKENS_PER_BATCH = 1500, 1024


@dataclass(frozen=True)
class TranslatorRun:
    """A translator with its tokenizer, and its training, which goes on while the log lines are read."""

    model: Seq2Seq
    tokenizer: Tokenizer
    logs: Iterator[Log]


def split_pairs(seed: int) -> tuple[list[SentencePair], list[SentencePair]]:
    """Pairs to train on, and unseen ones.

    The few courtesies are repeated, and some sentences appear without their full stop too.
    """
    known, unseen = split_phrase_book(TRAINING, HELD_OUT, seed)
    bare = [(e.removesuffix("."), s.removesuffix(".")) for e, s in known[::8] if e.endswith(".") and s.endswith(".")]
    return [*known, *courtesies() * 40, *bare], unseen


def begin_translator(pairs: Sequence[SentencePair], steps: int, seed: int, log_every: int = 50) -> TranslatorRun:
    """A translator with initial weights, ready to be trained on these pairs."""
    tokenizer = learn_tokenizer((side for pair in pairs for side in pair), "bpe", VOCABULARY)
    batches = pair_batches(tokenizer, encode_pairs(tokenizer, pairs), TOKENS_PER_BATCH, seed)
    config = Seq2SeqConfig(
        vocab=tokenizer.vocab_size, context=64, dim=96, layers=2, heads=4, ffn_dim=384, norm_first=True
    )
    model = Seq2Seq(config)
    model.init_weights(torch.Generator().manual_seed(seed))
    recipe = Recipe(steps=steps, learning_rate=4e-3, warmup_steps=max(1, steps // 10), seed=seed, log_every=log_every)
    return TranslatorRun(model, tokenizer, train(model, batches, NEXT_TARGET_TOKEN, recipe))
