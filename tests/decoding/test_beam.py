"""Beam search: true scores, the greedy choice for one, the optimum when wide enough, no neighbour matters."""

import itertools
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.decoding.beam import STRETCH, Search, highest, run_search
from glassformer.decoding.generate import first_token, generate
from glassformer.decoding.session import at_rest
from glassformer.decoding.settings import Decoding
from glassformer.decoding.translate import translate
from glassformer.equations.sampling import length_penalty
from tests.decoding.writers import DECODING, PROMPTS, WORDS, scores_after, words, writer

SIZES = [1, 3, STRETCH - 1, STRETCH, 2 * STRETCH, 3 * STRETCH + 1, 4 * STRETCH + 17, 9 * STRETCH - 1]
EACH = pytest.mark.parametrize("name", DECODING)


@given(seed=st.integers(0, 2**32), vocab=st.sampled_from(SIZES), count=st.integers(1, 6), coarse=st.booleans())
def test_the_highest_scores_are_those_of_a_sort(seed: int, vocab: int, count: int, coarse: bool) -> None:
    """Where scores are equal any of them will do, but each only once."""
    scores = torch.randn(3, vocab, generator=torch.Generator().manual_seed(seed))
    scores = scores.round() if coarse else scores
    best, ids = highest(scores, count)
    assert torch.equal(best, scores.sort(-1, descending=True).values[:, :count])
    assert torch.equal(scores.gather(1, ids), best)
    assert all(len(set(row)) == min(count, vocab) for row in ids.tolist())


@EACH
def test_a_beam_of_one_is_the_greedy_choice(name: str) -> None:
    model, how = writer(name), Decoding(limit=6)
    prompts = [words().encode(prompt) for prompt in PROMPTS]
    with at_rest(model):
        search = Search(model, prompts, [6] * len(prompts), how, [words().end], first_token(words()))
        found = run_search(search, [6] * len(prompts))
    greedy = generate(model, words(), PROMPTS, how)
    assert [best[0].ids for best in found] == [written.ids for written in greedy]
    for best, written in zip(found, greedy, strict=True):
        assert best[0].log_probabilities == pytest.approx(written.log_probabilities, abs=1e-4)


@EACH
def test_scores_are_log_probabilities_of_a_whole_run(name: str) -> None:
    model = writer(name)
    for prompt in PROMPTS[:2]:
        texts = generate(model, words(), prompt, Decoding(limit=5, beam=3, n=3))
        assert len({tuple(text.ids) for text in texts}) == 3
        for text in texts:
            scores = scores_after(model, words().encode(prompt), text.ids, name).log_softmax(-1)
            true = scores.gather(1, torch.tensor(text.ids)[:, None])[:, 0]
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
            scores = model(torch.tensor([prompt]), torch.tensor([target]))[0]
        else:
            scores = model(torch.tensor([[*prompt, *ids[:-1]]]))[0, len(prompt) - 1 :]
        total = scores.double().log_softmax(-1).gather(1, torch.tensor(ids)[:, None]).sum().item()
        return total / length_penalty(len(ids), alpha)

    texts = [ids for n in range(1, limit + 1) for ids in itertools.product(range(vocab), repeat=n)]
    whole = [ids for ids in texts if end not in ids[:-1] and (ids[-1] == end or len(ids) == limit)]
    with torch.no_grad():
        ranked = sorted(whole, key=rank, reverse=True)
    how = Decoding(limit=limit, beam=vocab**limit, n=3, length_penalty=alpha)
    with at_rest(model):
        (found,) = run_search(Search(model, [prompt], [limit], how, [end], 1), [limit])
    assert [tuple(hypothesis.ids) for hypothesis in found] == ranked[:3]
    assert [hypothesis.score for hypothesis in found] == pytest.approx([rank(ids) for ids in ranked[:3]], abs=1e-4)


@pytest.mark.parametrize("name", ["seq2seq", "gpt"])
def test_neighbours_do_not_matter_to_two_hundred_sentences(name: str) -> None:
    model, generator = writer(name), random.Random(0)
    texts = [" ".join(generator.choices(WORDS.split(), k=generator.randint(1, 9))) for _ in range(200)]
    how = Decoding(limit=4, beam=3, batch_tokens=600)
    together = [written.ids for written in generate(model, words(), texts, how)]
    order = generator.sample(range(200), 200)
    shuffled = generate(model, words(), [texts[i] for i in order], Decoding(limit=4, beam=3, batch_tokens=6000))
    assert [written.ids for written in shuffled] == [together[i] for i in order]
    some = generator.sample(range(200), 4)
    assert [generate(model, words(), texts[i], how)[0].ids for i in some] == [together[i] for i in some]


def test_a_longer_minimum_and_the_limit_are_kept() -> None:
    model = writer("seq2seq")
    for written in generate(model, words(), PROMPTS, Decoding(limit=7, minimum=4, beam=3)):
        assert 4 <= len(written.ids) <= 7
        assert words().end not in written.ids[:4]
    assert translate(model, words(), PROMPTS, 7, beam=2) == [
        written.text for written in generate(model, words(), PROMPTS, Decoding(limit=7, beam=2))
    ]
