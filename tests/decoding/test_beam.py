"""Beam search: true logits, the greedy choice for one, the optimum when wide enough, no text depends on others."""

import copy
import itertools
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.decoding.beam import CHUNK, BeamSearch, highest, run_search
from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.generate import generate, translate
from glassformer.decoding.loop import special_tokens
from glassformer.decoding.sampling import SpecialTokens
from glassformer.equations.sampling import length_penalty
from glassformer.errors import DecodingError
from glassformer.inference.prepare import inference_mode
from glassformer.recording import Tape
from tests.decoding.tiny_generators import DECODING, PROMPTS, WORDS, logits_after, words, writer

SIZES = [1, 3, CHUNK - 1, CHUNK, 2 * CHUNK, 3 * CHUNK + 1, 4 * CHUNK + 17, 9 * CHUNK - 1]
EACH = pytest.mark.parametrize("name", DECODING)


@given(seed=st.integers(0, 2**32), vocab=st.sampled_from(SIZES), count=st.integers(1, 6), coarse=st.booleans())
def test_the_highest_scores_are_those_of_a_sort(seed: int, vocab: int, count: int, coarse: bool) -> None:
    """Where logits are equal any of them will do, but each only once."""
    logits = torch.randn(3, vocab, generator=torch.Generator().manual_seed(seed))
    logits = logits.round() if coarse else logits
    best, ids = highest(logits, count)
    assert torch.equal(best, logits.sort(-1, descending=True).values[:, :count])
    assert torch.equal(logits.gather(1, ids), best)
    assert all(len(set(row)) == min(count, vocab) for row in ids.tolist())


@EACH
def test_a_beam_of_one_is_the_greedy_choice(name: str) -> None:
    model, config = writer(name), GenerationConfig(max_new_tokens=6)
    prompts = [words().encode(prompt) for prompt in PROMPTS]
    with inference_mode(model):
        search = BeamSearch(model, prompts, [6] * len(prompts), config, special_tokens(model, words(), config))
        found = run_search(search, [6] * len(prompts))
    greedy = generate(model, words(), PROMPTS, config)
    assert [best[0].ids for best in found] == [written.ids for written in greedy]
    for best, written in zip(found, greedy, strict=True):
        assert best[0].log_probabilities == pytest.approx(written.log_probabilities, abs=1e-4)


@EACH
def test_scores_are_log_probabilities_of_a_whole_run(name: str) -> None:
    model = writer(name)
    for prompt in PROMPTS[:2]:
        texts = generate(model, words(), prompt, GenerationConfig(max_new_tokens=5, num_beams=3, n=3))
        assert len({tuple(text.ids) for text in texts}) == 3
        for text in texts:
            logits = logits_after(model, words().encode(prompt), text.ids, name).log_softmax(-1)
            true = logits.gather(1, torch.tensor(text.ids)[:, None])[:, 0]
            assert text.log_probabilities == pytest.approx(true.tolist(), abs=1e-4)


@pytest.mark.parametrize(
    ("name", "alpha"), [*(("gpt", alpha) for alpha in (0.0, 0.6, 1.5, -0.5)), ("seq2seq", 0.6), ("lstm", 0.0)]
)
def test_a_beam_as_wide_as_the_space_finds_the_optimum(name: str, alpha: float) -> None:
    """Against every text of up to three tokens out of four, scored one by one without a cache."""
    vocab, limit, end = 4, 3, 2
    model = writer(name, seed=5, vocab=vocab)
    prompt = [3, 0]

    def rank(ids: tuple[int, ...]) -> float:
        target = [1, *ids[:-1]]
        if name in ("seq2seq", "t5"):
            logits = model(torch.tensor([prompt]), torch.tensor([target]))[0]
        else:
            logits = model(torch.tensor([[*prompt, *ids[:-1]]]))[0, len(prompt) - 1 :]
        total = logits.double().log_softmax(-1).gather(1, torch.tensor(ids)[:, None]).sum().item()
        return total / length_penalty(len(ids), alpha)

    texts = [ids for n in range(1, limit + 1) for ids in itertools.product(range(vocab), repeat=n)]
    whole = [ids for ids in texts if end not in ids[:-1] and (ids[-1] == end or len(ids) == limit)]
    with torch.no_grad():
        ranked = sorted(whole, key=rank, reverse=True)
    config = GenerationConfig(max_new_tokens=limit, num_beams=vocab**limit, n=3, length_penalty=alpha)
    with inference_mode(model):
        (found,) = run_search(BeamSearch(model, [prompt], [limit], config, SpecialTokens(1, (end,))), [limit])
    assert [tuple(hypothesis.ids) for hypothesis in found] == ranked[:3]
    assert [hypothesis.score for hypothesis in found] == pytest.approx([rank(ids) for ids in ranked[:3]], abs=1e-4)


@pytest.mark.parametrize(("vocab", "ends"), [(3, [0]), (3, [1, 2]), (4, [0, 1]), (5, [2])])
def test_no_text_comes_twice_and_none_is_lost(vocab: int, ends: list[int]) -> None:
    """Beams that there are hardly texts enough for, or too few."""
    for width, limit in itertools.product((10, 13, 24, 33), (3, 4)):
        model, config = writer("gpt", vocab=vocab), GenerationConfig(max_new_tokens=limit, num_beams=width, n=width)
        with inference_mode(model):
            (found,) = run_search(BeamSearch(model, [[2, 0]], [limit], config, SpecialTokens(1, tuple(ends))), [limit])
        going = [(vocab - len(ends)) ** step for step in range(limit + 1)]
        there_are = sum(len(ends) * before for before in going[:-1]) + going[-1]
        assert len({tuple(text.ids) for text in found}) == len(found) == min(width, there_are)


def test_at_a_tie_the_best_text_is_a_finished_one() -> None:
    """The end token logits as another token does, so that texts which go on are as likely as those which ended."""
    limit, finished = 5, 0
    for seed in range(12):
        model = copy.deepcopy(writer("gpt", seed=seed, vocab=6))
        model.embedding.weight[2] = model.embedding.weight[4]
        config = GenerationConfig(max_new_tokens=limit, num_beams=2, length_penalty=0.0)
        with inference_mode(model):
            ((best,),) = run_search(BeamSearch(model, [[3, 0]], [limit], config, SpecialTokens(1, (2,))), [limit])
        assert best.ids[-1] == 2 or len(best.ids) == limit
        finished += best.ids[-1] == 2
    assert finished, "no tie was met"


def test_every_prompt_has_its_texts() -> None:
    """A context that is full: results stay beside their prompts."""
    full = " ".join(["one"] * 8)
    found = generate(
        writer("gpt", context=8), words(), [full, "one two"], GenerationConfig(max_new_tokens=3, num_beams=3, n=3)
    )
    assert [(text.text, text.finish_reason) for text in found[:3]] == [("", "context")] * 3 and len(found) == 6
    few = GenerationConfig(max_new_tokens=1, num_beams=words().vocab_size + 1, n=words().vocab_size + 1)
    with pytest.raises(
        DecodingError, match=r"there are \d+ texts of up to 1 tokens for a prompt, wanted \d+: ask for fewer"
    ):
        generate(writer("gpt"), words(), "one", few)


@pytest.mark.parametrize("name", ["gpt", "mistral", "t5", "lstm", "seq2seq"])
def test_a_beam_search_on_a_tape_replays(name: str) -> None:
    with Tape() as tape:
        generate(writer(name), words(), "one two three", GenerationConfig(max_new_tokens=3, num_beams=2))
    whole = tape.replay()
    assert torch.equal(tape.replay(deep=True), whole)


@pytest.mark.parametrize("name", ["seq2seq", "gpt"])
def test_other_texts_do_not_matter_to_two_hundred_sentences(name: str) -> None:
    model, generator = writer(name), random.Random(0)
    texts = [" ".join(generator.choices(WORDS.split(), k=generator.randint(1, 9))) for _ in range(200)]
    config = GenerationConfig(max_new_tokens=4, num_beams=3, batch_tokens=600)
    together = [written.ids for written in generate(model, words(), texts, config)]
    order = generator.sample(range(200), 200)
    shuffled = generate(
        model, words(), [texts[i] for i in order], GenerationConfig(max_new_tokens=4, num_beams=3, batch_tokens=6000)
    )
    assert [written.ids for written in shuffled] == [together[i] for i in order]
    some = generator.sample(range(200), 4)
    assert [generate(model, words(), texts[i], config)[0].ids for i in some] == [together[i] for i in some]


def test_a_longer_minimum_and_the_limit_are_kept() -> None:
    model = writer("seq2seq")
    for written in generate(model, words(), PROMPTS, GenerationConfig(max_new_tokens=7, min_new_tokens=4, num_beams=3)):
        assert 4 <= len(written.ids) <= 7
        assert words().eos not in written.ids[:4]
    assert translate(model, words(), PROMPTS, 7, num_beams=2) == [
        written.text for written in generate(model, words(), PROMPTS, GenerationConfig(max_new_tokens=7, num_beams=2))
    ]
