"""Sentence vectors: what a head pools, or the mean of the last hidden states."""

from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.asking.reading import device_of, read_texts
from glassformer.checkpoints.vectors import UnknownWordError, nearest_spellings
from glassformer.checkpoints.word_tests import word_vectors
from glassformer.equations.sequences import mean_pool
from glassformer.errors import ModelError
from glassformer.inference.pair_embeddings import embed_texts
from glassformer.inference.prepare import inference_mode
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.model import Model
from glassformer.models.causal_classifier import CausalClassifier
from glassformer.models.clip import CLIP
from glassformer.models.encoder import Encoder
from glassformer.models.word2vec import SkipGram
from glassformer.text.tokenizer import Tokenizer


def embed(model: Model, tokenizer: Tokenizer, texts: Sequence[str]) -> Tensor:
    """Sentence vectors [texts, dim]: what the head of an encoder pools.

    Where no head pools, it is the mean of the last hidden states, in a translator of those of its encoder, and by
    word vectors the mean of those of its words.
    """
    if isinstance(model, CLIP):
        return embed_texts(model, tokenizer, texts)
    if isinstance(model, SkipGram):
        return _mean_of_words(model, tokenizer, texts)
    if not isinstance(model, EncoderDecoder | CausalClassifier) and "stack" not in dict(model.named_children()):
        raise ModelError(f"{type(model).__name__} does not embed: it has no blocks that read a text")
    vectors = [torch.empty(0, model.config.dim)]
    return torch.cat(vectors + [_pooled(model, *batch).cpu() for batch in read_texts(model, tokenizer, texts)])


def _mean_of_words(model: SkipGram, tokenizer: Tokenizer, texts: Sequence[str]) -> Tensor:
    """The mean of the vectors of each text's words; words without a vector are left out."""
    rows = [[id for id in ids if id not in tokenizer.specials] for ids in tokenizer.encode_batch(texts)]
    if unknown := [text for text, ids in zip(texts, rows, strict=True) if not ids]:
        near = nearest_spellings(unknown[0], word_vectors(model, tokenizer).words)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UnknownWordError(f"no word of {unknown[0][:60]!r} has a vector{hint}")
    found = [torch.empty(0, model.config.dim)]
    with inference_mode(model):
        found += [mean_pool(model.embedding(torch.tensor([ids], device=device_of(model)))).cpu() for ids in rows]
    return torch.cat(found)


def _pooled(model: Model, ids: Tensor, attention_mask: Tensor) -> Tensor:
    model.check_tokens("ids", ids, model.config.vocab)
    with inference_mode(model):
        if isinstance(model, EncoderDecoder):
            return mean_pool(model.encode(ids, attention_mask), attention_mask)
        if isinstance(model, Encoder) and model.config.head in ("sentence", "pooled"):
            return model(ids, attention_mask)
        assert isinstance(model, CausalLM | Encoder | CausalClassifier)
        return mean_pool(model.hidden_states(ids, attention_mask), attention_mask)
