"""N-gram blocking: the equation beside transformers' processor, and texts in which no run occurs twice."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation.logits_process import NoRepeatNGramLogitsProcessor

from glassformer.cli.main import main
from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.generate import generate
from glassformer.decoding.speculative import speculate
from glassformer.equations.sampling import no_repeat_ngram
from glassformer.errors import DecodingError
from tests.decoding.tiny_generators import PROMPTS, words, writer
from tests.models.zoo import TRANSLATORS

VOCAB = 5
CONFIGS = {
    "greedy": GenerationConfig(max_new_tokens=12),
    "sampling": GenerationConfig(max_new_tokens=12, temperature=0.7, repetition_penalty=1.1, n=2),
    "beam": GenerationConfig(max_new_tokens=12, num_beams=3, n=2),
}


@st.composite
def texts(draw: st.DrawFn) -> list[list[int]]:
    """Texts of one length over a few tokens."""
    size = draw(st.integers(0, 12))
    return draw(st.lists(st.lists(st.integers(0, 3), min_size=size, max_size=size), min_size=1, max_size=3))


@settings(max_examples=100, deadline=None)
@given(texts=texts(), n=st.integers(1, 4))
def test_it_equals_transformers(texts: list[list[int]], n: int) -> None:
    ids = torch.tensor(texts, dtype=torch.long)
    z = torch.randn(len(texts), VOCAB, generator=torch.Generator().manual_seed(0))
    theirs = NoRepeatNGramLogitsProcessor(n)(ids, z.clone())  # pyright: ignore[reportArgumentType]
    assert torch.equal(no_repeat_ngram(z, ids, n), theirs)


def test_a_negative_id_is_no_token() -> None:
    z = torch.zeros(1, VOCAB)
    assert no_repeat_ngram(z, torch.tensor([[-1, -1, 2]]), 2).isfinite().all()
    assert no_repeat_ngram(z, torch.tensor([[-1, 2, 3, 2]]), 2).tolist()[0][3] == -math.inf


def test_where_every_token_would_repeat_nothing_is_blocked() -> None:
    z = torch.zeros(1, 2)
    z[0, 1] = -math.inf
    assert torch.equal(no_repeat_ngram(z, torch.tensor([[0, 1]]), 1), z)


def repeated(ids: list[int], n: int) -> bool:
    runs = [tuple(ids[at : at + n]) for at in range(len(ids) - n + 1)]
    return len(set(runs)) < len(runs)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", ["gpt", "lstm", "seq2seq", "t5"])
def test_no_text_repeats_a_run(name: str, config: str) -> None:
    model, plain = writer(name), CONFIGS[config]
    blocked = dataclasses.replace(plain, no_repeat_ngram_size=2)
    found = generate(model, words(), PROMPTS, blocked)
    for number, text in enumerate(found):
        prompt = [] if name in TRANSLATORS else words().encode(PROMPTS[number // blocked.n])
        fresh = [*prompt[-1:], *text.ids]
        assert not repeated(fresh, 2), text
    assert [text.ids for text in found] != [text.ids for text in generate(model, words(), PROMPTS, plain)]
    alone = [text.ids for prompt in PROMPTS for text in generate(model, words(), [prompt], blocked)]
    assert [text.ids for text in found] == alone, "other texts of the batch must not matter"


def test_speculation_gives_the_same_text() -> None:
    config = GenerationConfig(max_new_tokens=10, no_repeat_ngram_size=2)
    wanted = [text.ids for text in generate(writer("gpt"), words(), PROMPTS[:2], config)]
    assert [text.ids for text in speculate(writer("gpt"), words(), PROMPTS[:2], config)] == wanted


@pytest.mark.parametrize("config", ["greedy", "beam"])
def test_compile_falls_back_with_a_word(config: str) -> None:
    blocked = dataclasses.replace(CONFIGS[config], no_repeat_ngram_size=3)
    with pytest.warns(UserWarning, match="decoding runs without compile: no_repeat_ngram_size"):
        found = generate(writer("gpt"), words(), PROMPTS[:1], dataclasses.replace(blocked, compile=True))
    assert [text.ids for text in found] == [text.ids for text in generate(writer("gpt"), words(), PROMPTS[:1], blocked)]


def test_a_size_below_zero_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DecodingError, match="no_repeat_ngram_size is -1, wanted a whole number, at least 0"):
        GenerationConfig(no_repeat_ngram_size=-1)
    assert main(["generate", "nowhere", "one", "--no-repeat-ngram", "-1"]) == 2
    assert "--no-repeat-ngram-size is -1, wanted a whole number" in capsys.readouterr().err
