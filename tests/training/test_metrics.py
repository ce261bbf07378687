"""Metrics of a model against slow counts by hand: losses, bytes, accuracy, F1, BLEU."""

import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from glassformer.data.batches import IGNORE
from glassformer.data.packed_batches import MaskedBatches, Masking, PackedBatches
from glassformer.data.padded_batches import LabeledBatches, PairBatches
from glassformer.decoding.completion import Completion
from glassformer.decoding.config import GenerationConfig
from glassformer.errors import MissingExtraError, ModelError, NonFiniteError
from glassformer.layers.config import Config
from glassformer.layers.model import Model
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.tasks.classify import LabeledSet
from glassformer.training.tasks.gpt import LanguageModelSet
from glassformer.training.tasks.masked import MaskedSet
from glassformer.training.tasks.translate import TranslationSet, score_translations

CORPUS = ["the cat sat on the mat", "añb€", "a naïve café, señor", "the dog sat too"]


class Stub(Model):
    """Scores as a function of ids, whatever else is given."""

    def __init__(self, scores: Callable[[Tensor], Tensor]) -> None:
        super().__init__(Config())
        self.scores = scores
        self.nothing = nn.Parameter(torch.zeros(()))

    def check(self, *inputs: Tensor) -> None:
        pass

    def forward(self, ids: Tensor, *others: Tensor) -> Tensor:
        return self.scores(others[0] if len(others) == 2 else ids)


def never(*_: object) -> list[Completion]:
    raise AssertionError("work was done")


def always(token: int, vocab: int) -> Stub:
    """A model that is twice as sure of one token as of any other."""
    row = torch.zeros(vocab)
    row[token] = math.log(2)
    return Stub(lambda ids: row.expand(*ids.shape, vocab))


def encoded(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[np.ndarray, int]:
    """The ids of a corpus, and the bytes of its text behind the first of them."""
    parts = list(tokenizer.encode_stream(texts))
    return np.concatenate(parts), tokenizer.text_bytes(texts, [*map(len, parts)], 1)


@pytest.mark.parametrize("rows", [1, 2])
def test_a_blind_guess_has_the_perplexity_of_the_vocabulary_and_bytes_are_those_of_the_targets(rows: int) -> None:
    tokenizer = learn_tokenizer(CORPUS, "characters")
    tokens, text_bytes = encoded(tokenizer, ["añb€", "€a"])
    assert len(tokens) == 8  # a ñ b € end, € a end
    blind = Stub(lambda ids: torch.zeros(*ids.shape, tokenizer.vocab_size))
    found = LanguageModelSet(PackedBatches(tokens, rows, 3, seed=0), lambda: text_bytes).evaluate(blind, never)
    assert found.loss == pytest.approx(math.log(tokenizer.vocab_size))
    assert found.perplexity == pytest.approx(tokenizer.vocab_size, rel=1e-5)
    assert (found.tokens, found.bytes) == (7, 2 + 1 + 3 + 0 + 3 + 1 + 0)  # all but the first, ends are no text
    assert found.bits_per_byte == pytest.approx(7 * math.log2(tokenizer.vocab_size) / 10)


def test_the_loss_of_a_model_is_the_mean_over_every_token_however_windows_are_batched() -> None:
    tokenizer = learn_tokenizer(CORPUS, "bpe", 270)
    tokens, text_bytes = encoded(tokenizer, CORPUS * 3)
    model = build(GPTConfig(vocab=tokenizer.vocab_size, context=16, dim=16, layers=1, heads=2, dropout=0.5)).double()
    model.train()
    found = LanguageModelSet(PackedBatches(tokens, 3, 16, seed=0), lambda: text_bytes).evaluate(model, never)
    assert model.training, "the model is left as it was"
    model.eval()
    nats = []
    for start in range(0, len(tokens) - 1, 16):
        window = torch.from_numpy(tokens[start : start + 17].astype(np.int64))
        probabilities = model(window[None, :-1])[0].double().softmax(-1)
        nats += [
            -math.log(row[target]) for row, target in zip(probabilities.tolist(), window[1:].tolist(), strict=True)
        ]
    assert found.loss == pytest.approx(sum(nats) / len(nats), rel=1e-6)
    assert found.perplexity == pytest.approx(math.exp(sum(nats) / len(nats)), rel=1e-6)
    first = len(tokenizer.decode([int(tokens[0])]).encode())
    assert found.bytes == sum(len(text.encode()) for text in CORPUS * 3) - first
    assert found.bits_per_byte == pytest.approx(sum(nats) / math.log(2) / found.bytes, rel=1e-6)


def test_a_masked_model_is_evaluated_on_hidden_tokens_alone() -> None:
    tokens = np.tile(np.arange(2, 9), 20)
    batches = MaskedBatches(tokens, 4, 10, Masking(mask=1, vocab=9, specials=frozenset({0, 1})), seed=3)
    hidden = [t for batch in batches.once() for t in batch["targets"].flatten().tolist() if t != IGNORE]
    found = MaskedSet(batches).evaluate(always(5, 9), never)
    right = sum(token == 5 for token in hidden)
    assert 0 < right < len(hidden) == found.tokens
    assert found.accuracy == pytest.approx(right / len(hidden), rel=1e-6)
    nats = sum(math.log(10) - (math.log(2) if token == 5 else 0) for token in hidden)
    assert found.loss == pytest.approx(nats / len(hidden), rel=1e-6)
    assert found.perplexity == pytest.approx(math.exp(nats / len(hidden)), rel=1e-6)


def slow_f1(right: Sequence[int], guesses: Sequence[int], c: int) -> float:
    """From precision and recall, counted one pair at a time."""
    hits = sum(1 for r, g in zip(right, guesses, strict=True) if r == g == c)
    if not hits:
        return 0.0
    precision, recall = hits / list(guesses).count(c), hits / list(right).count(c)
    return 2 / (1 / precision + 1 / recall)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30), st.integers(1, 7))
def test_a_classifier_is_counted_as_by_hand(predictions: list[tuple[int, int]], batch: int) -> None:
    right, guesses = [r for r, _ in predictions], [g for _, g in predictions]
    texts = [[guess] * (1 + index % 3) for index, guess in enumerate(guesses)]  # the first id is what will be guessed
    model = Stub(lambda ids: nn.functional.one_hot(ids[:, 0], 4).float())
    found = LabeledSet(LabeledBatches(texts, right, batch, pad=0, seed=0), "nesw").evaluate(model, never)
    hit = sum(r == g for r, g in predictions)
    assert found.accuracy == pytest.approx(hit / len(predictions))
    total = math.log(math.e + 3)
    assert found.loss == pytest.approx(total - hit / len(predictions), rel=1e-5)
    each = [slow_f1(right, guesses, c) for c in range(4)]
    assert [c.f1 for c in found.classes] == pytest.approx(each)
    assert [(c.name, c.examples) for c in found.classes] == [(name, right.count(i)) for i, name in enumerate("nesw")]
    seen = set(right) | set(guesses)
    assert found.f1_macro == pytest.approx(sum(each[c] for c in seen) / len(seen))
    assert found.f1_weighted == pytest.approx(sum(each[c] for c in right) / len(right))


def test_a_class_without_a_name_is_an_error() -> None:
    model = Stub(lambda ids: nn.functional.one_hot(ids[:, 0], 4).float())
    with pytest.raises(ModelError, match="class 3 is among the predictions, and there are labels for 2"):
        LabeledSet(LabeledBatches([[3], [1]], [0, 1], 2, pad=0, seed=0), ["one", "two"]).evaluate(model, never)


def test_a_translator_is_evaluated_by_loss_and_by_what_it_writes() -> None:
    pairs = [("a b", "x y z w v."), ("c", "y z x w v."), ("d e f", "Z x w v u.")]
    ids = [([3, 4], [5, 6]), ([3], [6]), ([4, 5, 3], [6, 5, 4])]
    model = build(Seq2SeqConfig(vocab=8, context=8, dim=8, layers=1, heads=2, ffn_dim=8), seed=1)
    batches = PairBatches(ids, 8, pad=0, decoder_start=1, eos=2, seed=0)
    tokenizer = learn_tokenizer(CORPUS, "characters")
    asked: list[str] = []

    def generate(_: Model, given: Tokenizer, texts: Sequence[str], config: GenerationConfig) -> list[Completion]:
        assert given is tokenizer and (config.num_beams, config.max_new_tokens) == (2, 8)
        asked.extend(texts)
        return [Completion(text, [], [], "stop") for text in (pairs[0][1], pairs[1][1], "z x w v u.")]

    found = TranslationSet(batches, pairs, tokenizer, GenerationConfig(num_beams=2, length_penalty=1.0)).evaluate(
        model, generate
    )
    nats = []
    for source, target in ids:
        scores = model(torch.tensor([source]), torch.tensor([[1, *target]]))[0].detach().double().log_softmax(-1)
        nats += [-float(row[token]) for row, token in zip(scores, [*target, 2], strict=True)]
    assert found.loss == pytest.approx(sum(nats) / len(nats), rel=1e-5)
    assert (found.tokens, found.pairs, asked) == (9, 3, ["a b", "c", "d e f"])
    assert found.scores.exact == pytest.approx(2 / 3)
    assert found.scores.bleu.score < 100
    assert found.scores.bleu_lowercase.score == pytest.approx(100)
    assert "case:mixed" in found.scores.bleu.signature and "tok:13a" in found.scores.bleu.signature
    assert "case:lc" in found.scores.bleu_lowercase.signature and "smooth:none" in found.scores.bleu_lowercase.signature
    assert "nc:6" in found.scores.chrf.signature


def multi_bleu(translations: Sequence[str], right: Sequence[str]) -> float:
    """Lower-cased BLEU over words as they stand, as the published results are counted."""
    hits, total, lengths = [0] * 4, [0] * 4, [0, 0]
    for translation, wanted in zip(translations, right, strict=True):
        one, other = translation.lower().split(), wanted.lower().split()
        lengths = [lengths[0] + len(one), lengths[1] + len(other)]
        for n in range(4):
            mine, theirs = (Counter(tuple(w[i : i + n + 1]) for i in range(len(w) - n)) for w in (one, other))
            hits[n] += (mine & theirs).total()
            total[n] += mine.total()
    if not all(hits):
        return 0.0
    penalty = min(0.0, 1 - lengths[1] / lengths[0])
    return 100 * math.exp(penalty + sum(math.log(h / t) for h, t in zip(hits, total, strict=True)) / 4)


WORDS = st.lists(st.sampled_from("der Der hund läuft . , T-Shirt Über".split()), min_size=1, max_size=9).map(" ".join)


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=4))
def test_lowercase_bleu_is_that_of_multi_bleu(pairs: list[tuple[str, str]]) -> None:
    translations, right = [one for one, _ in pairs], [other for _, other in pairs]
    scores = score_translations(translations, right)
    assert scores.bleu_lowercase.score == pytest.approx(multi_bleu(translations, right), abs=1e-6)
    same = score_translations(right, right)
    assert same.chrf.score == pytest.approx(100) and same.exact == 1


def test_without_sacrebleu_the_extra_is_named_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    batches = PairBatches([([3], [4])], 8, pad=0, decoder_start=1, eos=2, seed=0)

    with pytest.raises(MissingExtraError, match="pip install sacrebleu"):
        TranslationSet(batches, [("a", "b")], learn_tokenizer(CORPUS, "characters")).evaluate(Stub(never), never)


def test_a_model_of_bad_numbers_has_no_metrics() -> None:
    tokenizer = learn_tokenizer(CORPUS, "characters")
    bad = Stub(lambda ids: torch.full((*ids.shape, tokenizer.vocab_size), torch.nan))
    with pytest.raises(NonFiniteError, match="the loss is not finite on 9 of 9 targets"):
        LanguageModelSet(PackedBatches(np.arange(10), 1, 4, seed=0), lambda: 9).evaluate(bad, never)
    assert bad.training, "the model is left as it was, also after an error"


def test_what_follows_sees_every_batch() -> None:
    tokenizer = learn_tokenizer(CORPUS, "characters")
    seen = []
    LanguageModelSet(PackedBatches(np.arange(10), 1, 4, seed=0), lambda: 9).evaluate(
        always(3, tokenizer.vocab_size),
        never,
        lambda batches, what: (seen.append(batch["ids"].shape[1]) or batch for batch in batches),
    )
    assert seen == [4, 4, 1]
