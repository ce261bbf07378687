"""Masks: agreement with plain loops and with torch and transformers, and what softmax makes of them."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right
from torch.testing import assert_close
from transformers.masking_utils import sliding_window_causal_mask_function

from glassformer.equations.masks import additive_mask, causal_mask, combine_masks, padding_mask
from glassformer.equations.softmax import softmax
from glassformer.equations.sparse_masks import block_sparse_mask, dilated_mask, sliding_window_mask, visible_pairs
from glassformer.errors import EquationError
from glassformer.recording import Tape
from tests.cases import cases

CASES = settings(max_examples=100, deadline=None)
MANY = cases(100)
LENGTHS = st.integers(0, 33)
SEEDS = st.integers(0, 2**31 - 1)


def loop(queries: int, keys: int, sees: Callable[[int, int], bool]) -> Tensor:
    """A mask by asking of each pair whether the query at position p sees key j."""
    rows = [[0.0 if sees(keys - queries + i, j) else -math.inf for j in range(keys)] for i in range(queries)]
    return torch.tensor(rows).reshape(queries, keys)


def keep_flags(seed: int, *shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.7


@CASES
@given(queries=LENGTHS, keys=LENGTHS)
def test_causal_equals_a_loop(queries: int, keys: int) -> None:
    assert torch.equal(causal_mask(queries, keys), loop(queries, keys, lambda p, j: j <= p))
    assert torch.equal(causal_mask(queries), causal_mask(queries, queries))


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (5, 5), (3, 8), (1, 9)])
def test_causal_equals_torch(queries: int, keys: int) -> None:
    shown = causal_lower_right(queries, keys)._materialize()
    assert torch.equal(causal_mask(queries, keys) == 0, shown)
    square = torch.nn.Transformer.generate_square_subsequent_mask(keys)
    assert torch.equal(causal_mask(keys), square)


@CASES
@given(queries=LENGTHS, keys=LENGTHS, window=st.integers(1, 40))
def test_sliding_window_equals_a_loop(queries: int, keys: int, window: int) -> None:
    behind = loop(queries, keys, lambda p, j: p - window < j <= p)
    around = loop(queries, keys, lambda p, j: abs(p - j) < window)
    assert torch.equal(sliding_window_mask(queries, keys, window), behind)
    assert torch.equal(sliding_window_mask(queries, keys, window, causal=False), around)


@pytest.mark.parametrize("window", [1, 3, 20])
def test_sliding_window_equals_transformers(window: int) -> None:
    sees = sliding_window_causal_mask_function(window)
    i = torch.arange(12)
    assert torch.equal(sliding_window_mask(12, 12, window) == 0, sees(0, 0, i[:, None], i[None, :]))


@CASES
@given(queries=LENGTHS, keys=LENGTHS, window=st.integers(1, 6), dilation=st.integers(1, 6))
def test_dilated_equals_a_loop(queries: int, keys: int, window: int, dilation: int) -> None:
    def sees(p: int, j: int) -> bool:
        return j in [p - step * dilation for step in range(window)]

    assert torch.equal(dilated_mask(queries, keys, window, dilation), loop(queries, keys, sees))
    assert torch.equal(dilated_mask(queries, keys, window, 1), sliding_window_mask(queries, keys, window))


@CASES
@given(queries=LENGTHS, keys=LENGTHS, block=st.integers(1, 12))
def test_block_sparse_equals_a_loop(queries: int, keys: int, block: int) -> None:
    def sees(p: int, j: int) -> bool:
        own_block = range(p // block * block, p + 1)
        summaries = range(block - 1, p + 1, block)
        return j in own_block or j in summaries

    assert torch.equal(block_sparse_mask(queries, keys, block), loop(queries, keys, sees))


@CASES
@given(length=st.integers(1, 40), block=st.integers(1, 12))
def test_two_block_sparse_layers_reach_every_earlier_token(length: int, block: int) -> None:
    sees = (block_sparse_mask(length, length, block) == 0).long()
    assert torch.equal(sees @ sees > 0, causal_mask(length) == 0)


@CASES
@given(data=st.data(), keys=st.integers(1, 33), size=st.integers(1, 8))
def test_cached_queries_see_what_the_whole_sequence_sees(data: st.DataObject, keys: int, size: int) -> None:
    queries = data.draw(st.integers(1, keys))
    for mask in (
        causal_mask,
        lambda q, k: sliding_window_mask(q, k, size),
        lambda q, k: sliding_window_mask(q, k, size, causal=False),
        lambda q, k: dilated_mask(q, k, size, 2),
        lambda q, k: block_sparse_mask(q, k, size),
    ):
        assert torch.equal(mask(queries, keys), mask(keys, keys)[-queries:])


@CASES
@given(seed=SEEDS, batch=st.integers(0, 4), keys=LENGTHS)
def test_padding_equals_a_loop(seed: int, batch: int, keys: int) -> None:
    keep = keep_flags(seed, batch, keys)
    found = padding_mask(keep)
    assert found.shape == (batch, 1, 1, keys)
    for b in range(batch):
        assert found[b, 0, 0].tolist() == [0.0 if flag else -math.inf for flag in keep[b].tolist()]


@CASES
@given(seed=SEEDS, batch=st.integers(1, 4), length=st.integers(1, 12))
def test_causal_and_padding_combine(seed: int, batch: int, length: int) -> None:
    keep = keep_flags(seed, batch, length)
    both = combine_masks(causal_mask(length), padding_mask(keep))
    assert both.shape == (batch, 1, length, length)
    for b in range(batch):
        assert torch.equal(both[b, 0], loop(length, length, lambda p, j, b=b: j <= p and bool(keep[b, j])))
    assert torch.equal(both, combine_masks(padding_mask(keep), causal_mask(length)))
    assert torch.equal(combine_masks(both, causal_mask(length)), both)


@MANY
@given(seed=SEEDS, length=st.integers(1, 12), blocked=st.sampled_from([-math.inf, -1e9]))
def test_what_is_masked_has_no_say(seed: int, length: int, blocked: float) -> None:
    source = torch.Generator().manual_seed(seed)
    mask = causal_mask(length, blocked=blocked, dtype=torch.float64)
    scores, others = 10 * torch.randn(2, length, length, generator=source, dtype=torch.float64)
    weights = softmax(scores + mask)
    assert (weights[mask != 0] == 0).all()
    changed = torch.where(mask == 0, scores, others)
    assert torch.equal(softmax(changed + mask), weights), "a future score changed a weight"
    assert_close(weights.sum(-1), torch.ones(length, dtype=torch.float64))


@CASES
@given(seed=SEEDS, length=st.integers(1, 12), pad=st.integers(0, 5))
def test_padding_changes_no_weight_of_a_real_token(seed: int, length: int, pad: int) -> None:
    scores = torch.randn(length + pad, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    keep = (torch.arange(length + pad) < length)[None]
    weights = softmax(scores + padding_mask(keep, dtype=torch.float64)[0, 0, 0])
    assert (weights[length:] == 0).all()
    assert_close(weights[:length], softmax(scores[:length]), rtol=1e-14, atol=1e-15)


def test_the_weights_of_the_padded_worked_example() -> None:
    scores = torch.tensor([0.2, 0.4, 0.1, 0.3, 0.9], dtype=torch.float64)
    mask = padding_mask(torch.tensor([[True, True, True, False, False]]), dtype=torch.float64)[0, 0, 0]
    wanted = [0.3198730563359197, 0.3906938332698157, 0.28943311039426467, 0.0, 0.0]
    assert_close(softmax(scores + mask).tolist(), wanted, rtol=1e-14, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_row_that_sees_nothing_gives_no_nan(dtype: torch.dtype) -> None:
    nothing = torch.zeros(1, 3, dtype=torch.bool)
    assert softmax(padding_mask(nothing, dtype=dtype)).tolist() == [[[[0.0, 0.0, 0.0]]]]
    finite = padding_mask(nothing, blocked=-1e4, dtype=dtype)
    assert finite.dtype == dtype and finite.isfinite().all() and not softmax(finite).isnan().any()
    assert (causal_mask(5, 2, dtype=dtype)[:3] == -math.inf).all(), "queries before every key see none"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_finite_value_is_kept_to_the_digit(dtype: torch.dtype) -> None:
    mask = additive_mask(torch.tensor([True, False]), -1e9, dtype)
    assert mask.tolist() == [0.0, -1e9] and mask.dtype == dtype
    assert additive_mask(torch.tensor([False]), -1e300, torch.float64).item() == -1e300


def test_the_smaller_of_two_finite_masks_does_not_overflow() -> None:
    lowest = torch.full((2,), torch.finfo(torch.float16).min, dtype=torch.float16)
    assert combine_masks(lowest, lowest).isfinite().all() and (lowest + lowest).isinf().all()


def test_equal_masks_share_the_gradient_as_autograd_does() -> None:
    A = torch.tensor([0.0, 1.0, -1e9, 3.0], dtype=torch.float64, requires_grad=True)
    B = torch.tensor([[0.0, 2.0, -1e9, -1e9], [5.0, 1.0, 0.0, 3.0]], dtype=torch.float64, requires_grad=True)
    seed = torch.randn(2, 4, dtype=torch.float64)
    with Tape() as tape:
        M = combine_masks(A, B)
    by_rule = tape.reverse(seed)
    for leaf, wanted in zip((A, B), torch.autograd.grad(M, (A, B), seed), strict=True):
        assert_close(by_rule[leaf], wanted, rtol=1e-12, atol=0)


@CASES
@given(length=st.integers(1, 60), window=st.integers(1, 12), block=st.integers(1, 12))
def test_sparse_patterns_leave_less_work(length: int, window: int, block: int) -> None:
    full = int(visible_pairs(causal_mask(length)))
    assert full == length * (length + 1) // 2
    short = min(window, length)
    assert int(visible_pairs(sliding_window_mask(length, length, window))) == short * length - short * (short - 1) // 2
    assert int(visible_pairs(dilated_mask(length, length, window, 3))) <= window * length
    own_and_summaries = sum(p % block + 1 + p // block for p in range(length))
    assert int(visible_pairs(block_sparse_mask(length, length, block))) == own_and_summaries <= full


YES = torch.ones(2, 3, dtype=torch.bool)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: causal_mask(-1), "causal_mask: queries is -1, wanted a whole number, at least 0"),
        (lambda: causal_mask(2, -3), "keys is -3, wanted a whole number"),
        (lambda: causal_mask(2.0), "queries is 2.0, wanted a whole number"),
        (lambda: causal_mask(2, blocked=1.0), "blocked is 1.0, wanted minus infinity or a large negative number"),
        (lambda: causal_mask(2, blocked=math.nan), "blocked is nan, wanted minus infinity"),
        (lambda: causal_mask(2, blocked=-1e9, dtype=torch.float16), "blocked is .* at least -65504, .* torch.float16"),
        (lambda: causal_mask(2, dtype=torch.bool), "dtype is torch.bool, wanted a float type"),
        (lambda: additive_mask(torch.zeros(3)), "additive_mask: visible has type float32, wanted bool"),
        (lambda: additive_mask(YES, dtype=torch.int64), "dtype is torch.int64, wanted a float type"),
        (lambda: padding_mask(YES[0]), r"padding_mask: attention_mask has shape \[3\], wanted \[batch keys\]"),
        (lambda: padding_mask(YES.long()), "attention_mask has type int64, wanted bool"),
        (lambda: padding_mask(YES, blocked=0.0), "blocked is 0.0, wanted minus infinity"),
        (lambda: sliding_window_mask(3, 3, 0), "sliding_window_mask: window is 0, wanted a whole number, at least 1"),
        (lambda: sliding_window_mask(3, 3, 1.5), "window is 1.5, wanted a whole number"),
        (lambda: sliding_window_mask(-3, 3, 1), "queries is -3, wanted a whole number"),
        (lambda: dilated_mask(3, 3, 0, 1), "dilated_mask: window is 0"),
        (lambda: dilated_mask(3, 3, 1, 0), "dilation is 0, wanted a whole number, at least 1"),
        (lambda: block_sparse_mask(3, 3, 0), "block_sparse_mask: block is 0, wanted a whole number, at least 1"),
        (lambda: combine_masks(torch.zeros(2, 3), torch.zeros(2, 4)), r"combine_masks: B has shape \[2, 4\]"),
        (lambda: combine_masks(torch.zeros(2), YES[:, 0]), "B has type bool, wanted float"),
        (lambda: visible_pairs(YES), "visible_pairs: M has type bool, wanted float"),
    ],
)
def test_bad_input_is_named(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(EquationError, match=message):
        wrong()
