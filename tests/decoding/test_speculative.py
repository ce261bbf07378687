"""Speculative decoding: the greedy text token for token, samples of exactly the model's distribution."""

import copy
import math
import random

import pytest
import torch

from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.generate import generate
from glassformer.decoding.sampling import filtered
from glassformer.decoding.speculative import speculate, verify
from glassformer.equation import no_checks
from glassformer.equations.sampling import sample_from_uniform
from glassformer.equations.softmax import softmax
from glassformer.errors import DecodingError, NonFiniteError
from tests.decoding.test_generate import FILTERS, chi_square, expected
from tests.decoding.tiny_generators import PROMPTS, WORDS, biased, words, writer

ABLE = ["gpt", "llama-grouped", "mistral", "modern"]


@pytest.mark.parametrize("by", ["look-up", "draft"])
@pytest.mark.parametrize(
    ("name", "prompts"), [*((name, 12) for name in ABLE), pytest.param("gpt", 1000, marks=pytest.mark.soak)]
)
def test_speculative_equals_greedy(name: str, by: str, prompts: int) -> None:
    generator = random.Random(0)
    texts = [" ".join(generator.choices(WORDS.split(), k=generator.randint(1, 9))) for _ in range(prompts)]
    config = GenerationConfig(max_new_tokens=6, repetition_penalty=1.0 if by == "draft" else 1.2)
    draft = writer(name, seed=1) if by == "draft" else None
    found = speculate(writer(name), words(), texts, config, draft, guesses=3)
    plain = generate(writer(name), words(), texts, config)
    assert [written.ids for written in found] == [written.ids for written in plain]
    assert [written.finish_reason for written in found] == [written.finish_reason for written in plain]
    for one, other in zip(found[:20], plain[:20], strict=True):
        assert one.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-4)


def test_a_model_that_drafts_for_itself_is_always_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer runs of the model than tokens: the gain there is to have."""
    from glassformer.decoding.speculative import CachedReader

    runs = []
    logits = CachedReader.logits
    monkeypatch.setattr(CachedReader, "logits", lambda self, *given: (runs.append(self), logits(self, *given))[1])
    model = writer("gpt")
    (written,) = speculate(model, words(), "one two", GenerationConfig(max_new_tokens=20), model, guesses=4)
    main = max({id(run): runs.count(run) for run in runs}.items(), key=lambda item: item[1])
    assert len(written.ids) == 20 or written.finish_reason == "stop"
    assert min(runs.count(run) for run in set(runs)) <= math.ceil(len(written.ids) / 5) < main[1]


def test_both_models_are_in_inference_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    from glassformer.decoding.speculative import CachedReader

    at_work: set[bool] = set()
    logits = CachedReader.logits
    monkeypatch.setattr(
        CachedReader, "logits", lambda self, *given: (at_work.add(self.model.training), logits(self, *given))[1]
    )
    draft = copy.deepcopy(writer("gpt", seed=1)).train()
    speculate(writer("gpt"), words(), "one two", GenerationConfig(max_new_tokens=4), draft)
    assert at_work == {False} and draft.training


@pytest.mark.parametrize("name", ["plain", "top_k", "all"])
@pytest.mark.parametrize("by", ["look-up", "draft"])
def test_a_verified_token_has_the_true_distribution(name: str, by: str) -> None:
    """Whatever the guesses were drawn from: chi-square of 1,000 checked ones against the true probabilities."""
    config = GenerationConfig(**{"temperature": 1.0, **FILTERS[name]})
    generator = torch.Generator().manual_seed(3)
    logits, other = (2 * torch.randn(1, 12, generator=generator, dtype=torch.float64) for _ in range(2))
    seen, found = [1, 3], []
    q = softmax(filtered(other, config, torch.tensor([seen])))
    with no_checks():
        for _ in range(1000):
            u = torch.rand(3, dtype=torch.float64, generator=generator)
            guess = 5 if by == "look-up" else int(sample_from_uniform(q, u[2:]))
            probability = None if by == "look-up" else q
            found.append(verify(logits, guess, probability, config, u[:2], seen)[0])
    chi, freedom = chi_square(found, expected(logits[0], config, seen))
    assert chi < freedom + 4 * math.sqrt(2 * freedom) + 8


@pytest.mark.soak
@pytest.mark.parametrize("name", ["plain", "top_k", "all"])
@pytest.mark.parametrize("by", ["look-up", "draft"])
def test_draws_have_the_true_distribution(name: str, by: str) -> None:
    """The first two tokens of 1,500 samples: chi-square against the probabilities of a whole run."""
    samples = 1500
    config = GenerationConfig(**{"temperature": 1.0, **FILTERS[name], "n": samples, "max_new_tokens": 2})
    model, prompt = writer("gpt"), "one two one"
    draft = writer("gpt", seed=1) if by == "draft" else None
    found = speculate(model, words(), prompt, config, draft, guesses=2)
    ids = words().encode(prompt)
    logits = model(torch.tensor([ids]))[0, -1].double()
    firsts = [written.ids[0] for written in found]
    chi, freedom = chi_square(firsts, expected(logits, config, ids))
    assert chi < freedom + 4 * math.sqrt(2 * freedom) + 8
    first = max(set(firsts) - {words().eos}, key=firsts.count)
    seconds = [written.ids[1] for written in found if written.ids[0] == first]
    logits = model(torch.tensor([[*ids, first]]))[0, -1].double()
    chi, freedom = chi_square(seconds, expected(logits, config, [*ids, first]))
    assert chi < freedom + 4 * math.sqrt(2 * freedom) + 8


def test_the_context_and_stops_end_it() -> None:
    model = writer("gpt", context=16)
    for guesses in (1, 30):
        found = speculate(
            model, words(), PROMPTS, GenerationConfig(max_new_tokens=40, min_new_tokens=40), guesses=guesses
        )
        plain = generate(model, words(), PROMPTS, GenerationConfig(max_new_tokens=40, min_new_tokens=40))
        until = [whole.ids[: len(part.ids)] for whole, part in zip(plain, found, strict=True)]
        assert [w.ids for w in found] == until, "where `generate` goes on with the last tokens"
        assert {written.finish_reason for written in found} == {"context"}


def test_a_model_that_cannot_rewind_is_refused() -> None:
    config = GenerationConfig(max_new_tokens=3)
    for name, message in (
        ("lstm", "RNN cannot decode speculatively"),
        ("seq2seq", "Seq2Seq cannot decode speculatively"),
    ):
        with pytest.raises(DecodingError, match=message):
            speculate(writer(name), words(), "one", config)
    with pytest.raises(DecodingError, match="the draft has a vocabulary of 9, wanted 15"):
        speculate(writer("gpt"), words(), "one", config, writer("gpt", vocab=9))
    with pytest.raises(DecodingError, match="guesses is 0"):
        speculate(writer("gpt"), words(), "one", config, guesses=0)
    with pytest.raises(DecodingError, match="num_beams is 2, wanted 1 for speculative decoding"):
        speculate(writer("gpt"), words(), "one", GenerationConfig(num_beams=2))


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_a_row_without_a_token_is_never_chosen(temperature: float) -> None:
    rows = words().vocab_size + 5
    unused = words().unused_ids(rows)
    config = GenerationConfig(max_new_tokens=6, temperature=temperature, n=2 if temperature else 1)
    likely, barred = (biased("gpt", rows, unused, by) for by in (50.0, -1e9))
    for draft in (None, likely):
        found, wanted = (
            speculate(one, words(), PROMPTS[:2], config, draft and one, guesses=2) for one in (likely, barred)
        )
        assert [text.ids for text in found] == [text.ids for text in wanted]
        assert not {id for text in found for id in text.ids} & set(unused)


def test_logits_that_are_not_finite_are_an_error() -> None:
    broken = copy.deepcopy(writer("gpt"))
    broken.embedding.weight.fill_(torch.nan)
    for temperature in (0.0, 1.0):
        with pytest.raises(NonFiniteError):
            speculate(broken, words(), "one two one two", GenerationConfig(max_new_tokens=3, temperature=temperature))
