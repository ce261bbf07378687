"""The cache: token by token, in parts, padded, in a ring or of fixed shape, scores are those of a whole run."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from glassformer.errors import ModelError
from glassformer.layers.block import Stack
from glassformer.layers.cache import DecoderState, KVCache, left_padded
from glassformer.recording import Tape
from tests.layers.test_combinations import PATTERNS, POSITIONS, small
from tests.models.zoo import CAUSAL, TRANSLATORS, VOCAB, specimen

ROOM = {torch.float64: 1e-10, torch.float32: 1e-5}
CASES = settings(max_examples=5, deadline=None)


def parts(ids: Tensor, sizes: list[int]) -> list[Tensor]:
    """A sequence cut into parts of these sizes, the last one what is left."""
    cut, start = [], 0
    for size in [*sizes, ids.shape[1]]:
        cut.append(ids[:, start : start + size])
        start += size
    return [part for part in cut if part.shape[1]]


def counted_on_device(cache: KVCache) -> KVCache:
    """The same cache with its count in a tensor, as steps of fixed shape have it."""
    return replace(cache, length=torch.tensor(cache.count))


def in_steps(
    run: Callable[[Tensor, DecoderState], Tensor], cache: DecoderState, ids: Tensor, sizes: list[int]
) -> Tensor:
    """Scores of a sequence given in parts."""
    cache.all_logits = True
    return torch.cat([run(part, cache) for part in parts(ids, sizes)], 1)


@pytest.mark.parametrize("name", CAUSAL)
@CASES
@given(data=st.data())
def test_cached_equals_uncached_in_any_parts(name: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(list(ROOM)))
    case = specimen(name, dtype, seed=data.draw(st.integers(0, 99)), length=data.draw(st.integers(1, 14)))
    ids = case.inputs["ids"]
    most = 3 if name == "mistral" else 14
    sizes = data.draw(st.lists(st.integers(1, most), max_size=14))
    sizes = [*sizes, *[most] * 14]  # a window's cache takes so many at once
    cache = case.model.new_cache(3, data.draw(st.integers(ids.shape[1], 20)), headroom=most)
    fixed = data.draw(st.booleans()) and name not in ("rnn", "lstm")
    cache = counted_on_device(cache) if fixed else cache
    found = in_steps(lambda part, cache: case.model(part, cache=cache), cache, ids, sizes)
    assert_close(found, case(), rtol=ROOM[dtype], atol=ROOM[dtype])
    assert cache.count == ids.shape[1]


@pytest.mark.parametrize("name", CAUSAL)
@CASES
@given(data=st.data())
def test_padded_and_batched_equal_alone(name: str, data: st.DataObject) -> None:
    """Unequal prompts in one batch, then three tokens more for each: every score as if it were alone."""
    case = specimen(name, torch.float64, length=14)
    lengths = data.draw(st.lists(st.integers(1, 11), min_size=1, max_size=3))
    rows = [case.inputs["ids"][i, :n].tolist() for i, n in enumerate(lengths)]
    ids, padding = left_padded(rows, data.draw(st.integers(0, VOCAB - 1)), torch.device("cpu"))
    cache = case.model.new_cache(len(rows), 16, padding, headroom=11)
    if data.draw(st.booleans()) and name not in ("rnn", "lstm"):
        cache = counted_on_device(cache)
    scores = [case.model(ids, cache=cache)[:, -1]]
    for step in range(3):
        more = torch.stack([case.inputs["ids"][i, n + step] for i, n in enumerate(lengths)])
        scores.append(case.model(more[:, None], cache=cache)[:, -1])
    for i, n in enumerate(lengths):
        alone = case.model(case.inputs["ids"][i : i + 1, : n + 3])[0, n - 1 :]
        assert_close(torch.stack([s[i] for s in scores]), alone, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", TRANSLATORS)
@CASES
@given(data=st.data())
def test_translators_read_the_source_once(name: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(list(ROOM)))
    case = specimen(name, dtype, seed=data.draw(st.integers(0, 99)))
    source = case.inputs["source"]
    keep = torch.rand(source.shape, generator=torch.Generator().manual_seed(1)) < 0.7
    keep[:, 0] = True
    target = torch.randint(VOCAB, (3, 5), generator=torch.Generator().manual_seed(2))
    cache = case.model.new_cache(source, 8, keep)
    cache = counted_on_device(cache) if data.draw(st.booleans()) else cache
    sizes = data.draw(st.lists(st.integers(1, 3), max_size=5))
    found = in_steps(lambda part, cache: case.model.decode(part, None, cache=cache), cache, target, sizes)
    whole = case.model(source, target, keep)
    assert_close(found, whole, rtol=ROOM[dtype], atol=ROOM[dtype])


EACH = [{"positions": p} for p in POSITIONS] + [
    {"positions": p, "pattern": q} for p in ("rotary", "alibi", "t5", "learned") for q in PATTERNS if q != "everything"
]


@pytest.mark.parametrize("variety", EACH, ids=["-".join(v.values()) for v in EACH])
@pytest.mark.parametrize("fixed", [False, True], ids=["grows", "fixed"])
def test_every_position_scheme_and_pattern(variety: dict[str, str], fixed: bool) -> None:
    """Parts of a model put together by hand: two sequences, one of them padded, through one cache."""
    model, x = small(variety)
    whole = [model(x[:1]), model(x[1:, :6])]
    padded = torch.cat([torch.randn(1, 3, x.shape[-1], dtype=x.dtype), x[1:, :6]], 1)
    both = torch.cat([x[:1], padded])
    cache = model.stack.cache(2, 9, x, torch.tensor([0, 3]), headroom=2)
    cache = counted_on_device(cache) if fixed else cache
    cache.all_logits = True
    found = []
    for part in both.split([2, 1, 1, 2, 1, 1, 1], 1):
        moment = cache.attention_context(part.shape[1])
        found.append(model.stack(model.start(part, positions=moment.positions), cache=cache, context=moment))
        cache.advance(part.shape[1])
    found = torch.cat(found, 1)
    assert_close(found[:1], whole[0], rtol=1e-10, atol=1e-10)
    assert_close(found[1:, 3:], whole[1], rtol=1e-10, atol=1e-10)


def test_a_window_keeps_no_more_than_it_needs() -> None:
    case = specimen("mistral", length=14)
    cache = case.model.new_cache(3, 1000, headroom=2)
    assert cache.slots == 5
    with pytest.raises(ModelError, match=r"6 tokens at once, wanted at most 3 through a window"):
        case.model(case.inputs["ids"][:, :6], cache=cache)
    found = in_steps(lambda part, cache: case.model(part, cache=cache), cache, case.inputs["ids"], [3, 1, 2] * 5)
    assert_close(found, case(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", [*CAUSAL, *TRANSLATORS])
def test_a_cached_step_replays(name: str) -> None:
    """Prefill and a step on one tape: replayed exactly, and nothing but weights and the cache came in from outside."""
    case = specimen(name)
    translator = name in TRANSLATORS
    ids = case.inputs["target" if translator else "ids"]
    cache = case.model.new_cache(case.inputs["source"], 8) if translator else case.model.new_cache(3, 8)
    known = (
        [] if name in ("rnn", "lstm") else [t for slots in cache.self_kv + cache.cross_kv for t in vars(slots).values()]
    )
    with Tape() as tape:
        for part in (ids[:, :4], ids[:, 4:5]):
            y = case.model.decode(part, None, cache=cache) if translator else case.model(part, cache=cache)
    assert torch.equal(tape.replay(), y)
    assert torch.equal(tape.replay(deep=True), y)
    inside = {id(t) for t in (*case.model.parameters(), *known)}
    assert [leaf.shape for leaf in tape.leaves if leaf.is_floating_point() and id(leaf) not in inside] == []
    assert_close(y[:, -1], case()[:, 4], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", CAUSAL)
def test_sequences_can_be_chosen_and_reordered(name: str) -> None:
    case = specimen(name, length=9)
    ids = case.inputs["ids"]
    for rows in ([2, 0, 1], [1, 1, 0], [2], [0, 2]):
        cache = case.model.new_cache(3, 12, headroom=8)
        case.model(ids[:, :6], cache=cache)
        cache.select(torch.tensor(rows))
        found = case.model(ids[rows, 6:7], cache=cache)[:, -1]
        assert_close(found, case()[rows, 6], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", [n for n in CAUSAL if n not in ("rnn", "lstm")])
def test_tokens_can_be_taken_back(name: str) -> None:
    case = specimen(name, length=12)
    ids = case.inputs["ids"]
    cache = case.model.new_cache(3, 16, headroom=3)
    for t in range(8):
        case.model(ids[:, t : t + 1], cache=cache)
        wrong = torch.full((3, 3), 1)
        case.model(wrong, cache=cache)
        cache.advance(-3)
    found = case.model(ids[:, 8:9], cache=cache)[:, -1]
    assert_close(found, case()[:, 8], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", [*CAUSAL, *TRANSLATORS])
def test_bfloat16_stays_within_its_bound(name: str) -> None:
    """Cached and whole, each against the same weights in float64: within 6 % of the largest score."""
    case = specimen(name, torch.bfloat16)
    translator = name in TRANSLATORS
    ids = case.inputs["target" if translator else "ids"]
    cache = case.model.new_cache(case.inputs["source"], 8) if translator else case.model.new_cache(3, 8, headroom=1)

    def run(part: Tensor, cache: object) -> Tensor:
        return case.model.decode(part, None, cache=cache) if translator else case.model(part, cache=cache)

    found = in_steps(run, cache, ids, [1] * 9)
    exact = case.model.double()(**case.inputs)
    assert (found.double() - exact).abs().max() <= 0.06 * exact.abs().max()


def test_what_does_not_fit_is_refused() -> None:
    gpt = specimen("gpt")
    ids = gpt.inputs["ids"]
    cache = gpt.model.new_cache(3, 8)
    gpt.model(ids, cache=cache)
    with pytest.raises(ModelError, match="the cache has 8 slots, wanted 14"):
        gpt.model(ids, cache=cache)
    cache = gpt.model.new_cache(3, 40)
    gpt.model(ids, cache=cache)
    gpt.model(ids, cache=cache)
    with pytest.raises(ModelError, match="GPT: 21 tokens with those in the cache, wanted at most 16, the context"):
        gpt.model(ids, cache=cache)
    with pytest.raises(ModelError, match="attention_mask is given beside a cache"):
        gpt.model(ids, torch.ones(3, 7).bool(), gpt.model.new_cache(3, 8))
    model, x = small({"pattern": "everything"})
    stack = model.stack
    assert isinstance(stack, Stack)
    cache = stack.cache(2, 9, x, torch.tensor([0, 1]))
    with pytest.raises(ModelError, match="Bidirectional: attends to later tokens"):
        stack(x, cache=cache, context=cache.attention_context(9))
