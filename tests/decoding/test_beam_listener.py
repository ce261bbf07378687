"""A listener on beam search: its steps replay to the same texts, and without one nothing changes."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.decoding.beam import ENDED_BONUS, Beam, BeamSearch
from glassformer.decoding.beam_listener import BeamCandidate, BeamStep
from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.generate import generate, listen, translate
from glassformer.decoding.loop import special_tokens
from glassformer.equations.sampling import length_penalty
from glassformer.errors import DecodingError
from tests.decoding.tiny_generators import PROMPTS, words, writer

Line = tuple[tuple[int, ...], float, bool]  # tokens, log-probability and end of a hypothesis
CASES = settings(max_examples=25, deadline=None)


def heard(name: str, prompt: str, config: GenerationConfig) -> tuple[list[list[BeamCandidate]], list[list[int]]]:
    """The candidates of every step, and the ids of the texts that were found."""
    steps: list[BeamStep] = []
    found = listen(writer(name), words(), prompt, config, steps.append)
    return [step.candidates() for step in steps], [text.ids for text in found]


def replayed(steps: list[list[BeamCandidate]], beams: int) -> list[Line]:
    """The last beam, from the candidates alone; every step takes the best ones, finished hypotheses first."""
    lines: list[Line | None] = [((), 0.0, False), *[None] * (beams - 1)]
    for candidates in steps:
        taken: list[Line | None] = [None] * beams
        for each in candidates:
            parent = lines[each.parent]
            assert parent is not None and parent[2] == (each.token is None)
            assert each.score == pytest.approx(parent[1] + each.log_probability, abs=1e-4)
            if each.slot is not None:
                new = () if each.token is None else (each.token,)
                taken[each.slot] = (*parent[0], *new), each.score, each.ended
        kept = [each for each in candidates if each.slot is not None]
        worst = min(each.score + ENDED_BONUS * (each.token is None) for each in kept)
        assert all(each.score <= worst for each in candidates if each.slot is None), "a better one was pruned"
        assert len(kept) == min(beams, len(candidates))
        lines = taken
    return [line for line in lines if line is not None]


@pytest.mark.parametrize("name", ["seq2seq", "t5", "gpt", "lstm"])
@CASES
@given(
    prompt=st.sampled_from(PROMPTS),
    beams=st.integers(1, 6),
    alpha=st.floats(-0.5, 2),
    limit=st.integers(1, 8),
    data=st.data(),
)
def test_the_steps_replay_to_the_same_texts(
    name: str, prompt: str, beams: int, alpha: float, limit: int, data: st.DataObject
) -> None:
    n = data.draw(st.integers(1, beams))
    config = GenerationConfig(max_new_tokens=limit, num_beams=beams, length_penalty=alpha, n=n)
    steps, found = heard(name, prompt, config)
    ended = [line for line in replayed(steps, beams) if line[2]]
    ended.sort(key=lambda line: line[1] / length_penalty(len(line[0]), alpha), reverse=True)
    assert [list(ids) for ids, _, _ in ended[:n]] == found
    if beams > 1:
        assert found == [text.ids for text in generate(writer(name), words(), [prompt], config)]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_listened_search_translates_as_translate_does(prompt: str) -> None:
    for beams in (1, 3):
        config = GenerationConfig(max_new_tokens=7, num_beams=beams)
        (found,) = listen(writer("seq2seq"), words(), prompt, config, lambda step: None)
        assert [found.text] == translate(writer("seq2seq"), words(), [prompt], 7, num_beams=beams)


def test_the_first_step_continues_one_hypothesis_and_a_finished_one_stays() -> None:
    steps, _ = heard("gpt", "one two", GenerationConfig(max_new_tokens=4, num_beams=3))
    assert {each.parent for each in steps[0]} == {0}
    last = heard("gpt", "one two", GenerationConfig(max_new_tokens=1, num_beams=3))[0]
    assert len(last) == 1 and all(each.ended == (each.slot is not None) for each in last[0])


def test_a_suppressed_token_is_no_candidate() -> None:
    config = GenerationConfig(max_new_tokens=6, min_new_tokens=3, num_beams=4)
    steps, _ = heard("seq2seq", "one two three", config)
    assert all(each.token != words().eos for candidates in steps[:3] for each in candidates)
    assert all(math.isfinite(each.score) for candidates in steps for each in candidates)


def test_what_a_listener_keeps_does_not_change_later() -> None:
    kept: list[BeamStep] = []
    at_once: list[list[BeamCandidate]] = []

    def hear(step: BeamStep) -> None:
        kept.append(step)
        at_once.append(step.candidates())

    listen(writer("seq2seq"), words(), PROMPTS[2], GenerationConfig(max_new_tokens=8, num_beams=3), hear)
    assert [step.candidates() for step in kept] == at_once and len(at_once) > 1


def test_a_blank_source_is_not_searched() -> None:
    (found,) = listen(writer("seq2seq"), words(), "  ", GenerationConfig(num_beams=2), pytest.fail)
    assert found.text == ""


def test_without_a_listener_the_same_operations_run() -> None:
    """Nothing is copied for a listener who is not there: a step calls the same kernels, in the same number."""

    def kernels(listener: list[BeamStep] | None) -> dict[str, int]:
        beam = Beam.empty([4], 3, torch.zeros(1))
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            logits = torch.linspace(-1, 1, 21).view(3, 7)
            beam.extend(logits, torch.tensor(0), torch.tensor([2]), None if listener is None else listener.append)
        return {event.key: event.count for event in profile.key_averages() if event.key.startswith("aten::")}

    silent, listened = kernels(None), kernels([])
    assert silent.get("aten::clone", 0) == 0 and listened["aten::clone"] == 2
    assert {name: count for name, count in listened.items() if silent.get(name, 0) > count} == {}


def test_a_compiled_search_refuses_a_listener() -> None:
    model, config = writer("gpt"), GenerationConfig(max_new_tokens=2, num_beams=2, compile=True)
    with pytest.raises(DecodingError, match="a compiled beam search has no listener: set compile=False"):
        BeamSearch(model, [[1]], [2], config, special_tokens(model, words(), config), lambda step: None)
    (found,) = listen(model, words(), "one", config, lambda step: None)
    assert found.ids == generate(model, words(), "one", replace(config, compile=False))[0].ids


def test_a_prompt_longer_than_the_context_is_refused_at_any_width() -> None:
    for beams in (1, 2):
        with pytest.raises(DecodingError, match="the prompt has 9 tokens, wanted at most 8, the model's context"):
            listen(
                writer("gpt", context=8),
                words(),
                " ".join(["one"] * 9),
                GenerationConfig(num_beams=beams),
                lambda step: None,
            )
