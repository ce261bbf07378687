"""Branches: every way of a sequence scores as if its line had been read alone, whatever was dropped on the way."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from glassformer.errors import ModelError
from glassformer.inference.compiled_step import fill_cache, static_cache
from glassformer.layers.beam_cache import GRAIN, BeamCache, expand_beams, expand_cache
from glassformer.layers.cache import KVCache, left_padded
from glassformer.layers.recurrent_state import RecurrentBeamState
from glassformer.recording import Tape
from tests.decoding.test_cache import EACH
from tests.layers.test_combinations import small
from tests.models.zoo import CAUSAL, TRANSLATORS, VOCAB, specimen

CASES = settings(max_examples=6, deadline=None)
WAYS = 3


class Lines:
    """What each way has read, written down token by token."""

    def __init__(self, starts: list[list[int]], ways: int, seed: int) -> None:
        self.random = torch.Generator().manual_seed(seed)
        self.texts = [[list(start) for _ in range(ways)] for start in starts]

    def draw(self, limit: int) -> Tensor:
        """A number below a limit for every way."""
        return torch.randint(limit, (len(self.texts), len(self.texts[0])), generator=self.random)

    def read(self) -> Tensor:
        """A next token for every way."""
        ids = self.draw(VOCAB)
        for texts, row in zip(self.texts, ids.tolist(), strict=True):
            for text, token in zip(texts, row, strict=True):
                text.append(token)
        return ids

    def follow(self) -> Tensor:
        """A parent for every way."""
        parents = self.draw(len(self.texts[0]))
        self.texts = [[list(texts[i]) for i in row] for texts, row in zip(self.texts, parents.tolist(), strict=True)]
        return parents


@pytest.mark.parametrize("name", CAUSAL)
@CASES
@given(data=st.data())
def test_every_line_scores_as_if_alone(name: str, data: st.DataObject) -> None:
    """Prompts of unequal length, longer perhaps than a window's ring, then steps in which ways die and others fork."""
    case = specimen(name, torch.float64, length=9)
    lengths = data.draw(st.lists(st.integers(1, 8), min_size=1, max_size=3))
    starts = [case.inputs["ids"][i, :n].tolist() for i, n in enumerate(lengths)]
    ids, padding = left_padded(starts, 0, torch.device("cpu"))
    cache = case.model.new_cache(len(starts), 9, padding, headroom=2)
    for part in ids.split(2, 1):
        case.model(part, cache=cache)
    ways, steps = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 8))
    branches = expand_beams(cache, ways, steps)
    if isinstance(branches, BeamCache) and data.draw(st.booleans()):
        static = static_cache(branches, branches.slots, 0)
        fill_cache(static, cache)
        static.begin(cache)
        branches = static
    lines = Lines(starts, ways, data.draw(st.integers(0, 99)))
    for _ in range(steps):
        tokens = lines.read()
        tokens = tokens.view(-1, 1) if isinstance(branches, RecurrentBeamState) else tokens
        found = case.model(tokens, cache=branches).view(len(starts), ways, -1)
        for i, texts in enumerate(lines.texts):
            for way, text in enumerate(texts):
                assert_close(found[i, way], case.model(torch.tensor([text]))[0, -1], rtol=1e-10, atol=1e-10)
        branches.follow(lines.follow())


@pytest.mark.parametrize("name", TRANSLATORS)
def test_the_ways_of_a_translation_see_their_own_source(name: str) -> None:
    case = specimen(name, torch.float64)
    source = case.inputs["source"]
    keep = torch.ones_like(source).bool()
    keep[1, -2:] = False
    cache = expand_cache(case.model.new_cache(source, 1, keep), WAYS, 5)
    lines, rows = Lines([[]] * 3, WAYS, 5), [0, 1, 2]
    for step in range(5):
        found = case.model.decode(lines.read(), None, cache=cache)
        for row, i in enumerate(rows):
            whole = case.model(source[[i] * WAYS], torch.tensor(lines.texts[row]), keep[[i] * WAYS])
            assert_close(found[row], whole[:, -1], rtol=1e-10, atol=1e-10)
        cache.follow(lines.follow())
        if step == 2:  # some are done, and the others change their order
            rows = [2, 0]
            cache.select(torch.tensor(rows))
            lines.texts = [lines.texts[i] for i in rows]


@pytest.mark.parametrize("variety", EACH, ids=["-".join(v.values()) for v in EACH])
def test_every_position_scheme_and_pattern_branches(variety: dict[str, str]) -> None:
    """Rows put through a stack by hand: a shared start of three, then four steps of two ways that cross over."""
    model, x = small(variety)
    rows = torch.randn(2, 4, 2, x.shape[-1], dtype=x.dtype, generator=torch.Generator().manual_seed(3))
    cache = model.stack.cache(2, 3, x, headroom=3)
    moment = cache.attention_context(3)
    model.stack(model.start(x[:, :3], positions=moment.positions), cache=cache, context=moment)
    cache.advance(3)
    branches, lines = expand_cache(cache, 2, 4), [[x[i, :3]] * 2 for i in range(2)]
    for step in range(4):
        moment = branches.attention_context(2)
        found = model.stack(model.start(rows[:, step], positions=moment.positions), cache=branches, context=moment)
        branches.advance(2)
        lines = [[torch.cat([lines[i][w], rows[i, step, w : w + 1]]) for w in range(2)] for i in range(2)]
        for i, w in ((i, w) for i in range(2) for w in range(2)):
            assert_close(found[i, w], model(lines[i][w][None])[0, -1], rtol=1e-10, atol=1e-10)
        parents = torch.tensor([[1, 0], [step % 2, step % 2]])
        branches.follow(parents)
        lines = [[lines[i][p] for p in parents[i].tolist()] for i in range(2)]


def test_the_past_is_kept_once_and_nothing_is_moved() -> None:
    gpt = specimen("gpt")
    cache = gpt.model.new_cache(3, 7)
    gpt.model(gpt.inputs["ids"], cache=cache)
    branches = expand_cache(cache, 4, 3)
    assert (branches.prompt_slots, branches.slots) == (GRAIN, 2 * GRAIN), (
        "one past for four ways, and room for 4 x 3 columns"
    )
    gpt.model(torch.ones(3, 4, dtype=torch.long), cache=branches)
    before = [slots.keys.clone() for slots in branches.self_kv]
    branches.follow(torch.tensor([[3, 3, 0, 1]] * 3))
    assert all(torch.equal(slots.keys, was) for slots, was in zip(branches.self_kv, before, strict=True))
    assert branches.longest(4) == 9
    with Tape() as tape:
        y = gpt.model(torch.ones(3, 4, dtype=torch.long), cache=branches)
    assert torch.equal(tape.replay(), y)
    assert "tree_mask" in {step.equation.name for step in tape.steps}


def test_places_are_counted_from_the_first_token() -> None:
    gpt = specimen("gpt")
    cache = gpt.model.new_cache(2, 7, torch.tensor([0, 3]))
    gpt.model(gpt.inputs["ids"][:2], cache=cache)
    branches = expand_cache(cache, 2, 3)
    assert branches.longest(2) == 8
    branches.select(torch.tensor([1]))
    assert branches.longest(2) == 5


def test_an_empty_past_branches() -> None:
    cache = specimen("gpt").model.new_cache(2, 4)
    assert isinstance(cache, KVCache)
    branches = expand_cache(cache, 2, 1)
    assert (branches.prompt_slots, branches.count) == (0, 0)
    assert branches.columns.tolist()[:4] == [0, 0, 1, 1]
    for _ in range(GRAIN // 2):
        branches.advance(2)
    with pytest.raises(ModelError, match="room for 16 steps, wanted 17: make more"):
        branches.attention_context(2)
