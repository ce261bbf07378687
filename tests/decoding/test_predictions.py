"""Predictions of a run against `generate`, `fill`, `classify` and the softmax of the logits."""

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.generate import generate
from glassformer.decoding.predictions import Predictor
from glassformer.decoding.sampling import filtered
from glassformer.errors import DecodingError, NonFiniteError
from glassformer.interface import LoadedModel
from glassformer.models.encoder import EncoderConfig
from glassformer.models.registry import build
from glassformer.probes.trace import trace
from glassformer.text.learn_tokenizer import learn_tokenizer
from tests.decoding.tiny_generators import WORDS, biased, words, writer
from tests.models.zoo import TRANSLATORS, specimen

STEPS = 5
TEXT = "one two three"
SAMPLING = GenerationConfig(temperature=1.3, top_k=9, top_p=0.9, min_p=0.05, max_new_tokens=STEPS, seed=3)


def predictor(name: str, ids: list[int], written: list[int]) -> Predictor:
    """The predictor of a run on a prompt and the tokens written so far."""
    if name in TRANSLATORS:
        target = torch.tensor([[words().decoder_start, *written]])
        return Predictor(trace(writer(name), {"source": torch.tensor([ids]), "target": target}), words())
    return Predictor(trace(writer(name), torch.tensor([[*ids, *written]])), words())


@pytest.mark.parametrize("config", [GenerationConfig(max_new_tokens=STEPS), SAMPLING], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", ["gpt", "llama-grouped", "lstm", "seq2seq", "t5"])
def test_token_by_token_it_writes_what_generate_writes(name: str, config: GenerationConfig) -> None:
    (wanted,) = generate(writer(name), words(), TEXT, config)
    ids = words().encode_prompts([TEXT])[0] if name not in TRANSLATORS else words().encode_inputs([TEXT])[0]
    written: list[int] = []
    for id in wanted.ids:
        found = predictor(name, ids, written).at(config=config, written=len(written))
        greedy = config.temperature == 0
        assert found.candidates[0].id == found.greedy
        assert (found.greedy if greedy else found.sampled) == id
        written.append(id)


@cache
def short_run() -> Predictor:
    """One run for every example."""
    return predictor("gpt", words().encode_prompts([TEXT])[0], [])


@given(
    st.floats(0.2, 3),
    st.none() | st.integers(1, 12),
    st.none() | st.floats(0.05, 1),
    st.none() | st.floats(0.01, 1),
    st.integers(0, 2),
)
@settings(max_examples=60, deadline=None)
def test_probabilities_are_the_softmax_of_what_the_settings_leave(
    heat: float, k: int | None, p: float | None, least: float | None, position: int
) -> None:
    config = GenerationConfig(temperature=heat, top_k=k, top_p=p, min_p=least)
    run = short_run()
    found = run.at(position, config, count=run.logits.shape[-1])
    left = filtered(run.logits[position], config)
    wanted = torch.softmax(left, -1)
    for candidate in found.candidates:
        assert abs(candidate.probability - float(wanted[candidate.id])) <= 1e-6
        assert bool(candidate.removed_by) == (float(left[candidate.id]) == -torch.inf)
    names = [each.step.equation.name for each in found.steps]
    cuts = [name for name, value in (("top_k", k), ("top_p", p), ("min_p", least)) if value is not None]
    assert names == ["temperature", *cuts, "softmax"]
    removed = sum(len(each.removed) for each in found.steps)
    assert removed == int((left == -torch.inf).sum()) == found.vocab - found.steps[-1].left


def test_half_the_temperature_is_the_softmax_of_twice_the_logits() -> None:
    run = predictor("gpt", [3, 4, 5], [])
    found = run.at(config=GenerationConfig(temperature=0.5))
    wanted = torch.softmax(run.logits[-1].double() * 2, -1)
    assert [round(c.probability - float(wanted[c.id]), 6) for c in found.candidates] == [0] * 8
    assert found.candidates[0].model_probability < found.candidates[0].probability


def test_the_token_that_follows_in_the_text_has_its_rank() -> None:
    run = predictor("gpt", [3, 4, 5], [])
    found = run.at(0)
    assert found.actual is not None and found.actual.id == 4
    assert found.rank == int((run.logits[0] > run.logits[0, 4]).sum())
    assert run.at().actual is None


def test_ids_that_are_no_tokens_are_never_predicted() -> None:
    spare = words().vocab_size
    model = biased("gpt", spare + 3, [spare + 1], 50.0)
    found = Predictor(trace(model, torch.tensor([[3, 4]])), words()).at()
    assert found.greedy < spare and found.steps[0].step.equation.name == "suppress_tokens"
    assert found.greedy == generate(model, words(), [[3, 4]], GenerationConfig(max_new_tokens=1))[0].ids[0]


def test_a_masked_model_predicts_at_its_masks_what_fill_says() -> None:
    tokenizer = learn_tokenizer([WORDS], "wordpiece", 60)
    config = EncoderConfig(vocab=tokenizer.vocab_size, context=16, dim=8, layers=2, heads=2, ffn_dim=12, head="masked")
    loaded = LoadedModel(build(config, 1).eval(), tokenizer)
    run = Predictor(loaded.trace("one [MASK] three"), tokenizer)
    (wanted,) = loaded.fill("one [MASK] three", top_k=3)
    found = run.at(count=3)
    assert run.positions == [found.position] and run.ids[found.position or 0] == tokenizer.mask
    assert [candidate.text for candidate in found.candidates] == list(wanted.probabilities)
    assert_close([candidate.probability for candidate in found.candidates], list(wanted.probabilities.values()))


def test_a_classifier_predicts_its_labels() -> None:
    case = specimen("encoder-classifier", torch.float32)
    run = Predictor(trace(case.model, case.inputs), None, ["no", "yes", "perhaps"])
    found = run.at()
    assert found.position is None and run.positions == []
    assert {c.text: c.probability for c in found.candidates} == pytest.approx(
        dict(zip(["no", "yes", "perhaps"], torch.softmax(case()[0], -1).tolist(), strict=True))
    )
    assert len(run.lens()) == len(case.model.stack.blocks) + 1


def test_without_a_tokenizer_tokens_are_numbers() -> None:
    case = specimen("gpt", torch.float32)
    assert all(c.text == str(c.id) for c in Predictor(trace(case.model, case.inputs)).at().candidates)


@pytest.mark.parametrize("name", ["gpt", "seq2seq", "encoder-masked"])
def test_the_lens_ends_with_the_prediction_and_a_part_of_it_is_the_same(name: str) -> None:
    case = specimen(name, torch.float32)
    run = Predictor(trace(case.model, case.inputs, "next"))
    whole = run.lens(2)
    for position, best in enumerate(whole[-1]):
        found = run.at(position, count=2)
        assert [c.id for c in best] == [c.id for c in found.candidates]
        assert best[0].probability == pytest.approx(found.candidates[0].probability)
    part = run.lens(2, 1, 3)
    assert [[[c.id for c in each] for each in row] for row in part] == [
        [[c.id for c in each] for each in row[1:3]] for row in whole
    ]


def test_what_has_no_prediction_says_so() -> None:
    case = specimen("encoder-pooled", torch.float32)
    with pytest.raises(DecodingError, match="no logits of tokens or labels"):
        Predictor(trace(case.model, case.inputs)).at()
    broken = specimen("gpt", torch.float32)
    with torch.no_grad():
        broken.model.stack.norm.weight[0] = torch.nan
    with pytest.raises(NonFiniteError, match="NaN or infinite"):
        Predictor(trace(broken.model, broken.inputs)).at()
    fine = specimen("gpt", torch.float32)
    with pytest.raises(DecodingError, match="no position 7, wanted 0 to 6"):
        Predictor(trace(fine.model, fine.inputs)).at(7)
