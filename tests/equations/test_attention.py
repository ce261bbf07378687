"""Attention against a loop over single numbers, and its properties over random inputs."""

import math
from contextlib import nullcontext

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from glassformer.equation import no_checks, reference_mode
from glassformer.equations.attention import attention, attention_scores
from glassformer.equations.flash_attention import tiled_attention
from glassformer.equations.heads import merge_heads, repeat_kv, split_heads
from glassformer.equations.masks import causal_mask
from glassformer.errors import EquationError
from glassformer.recording import Tape
from tests.cases import cases
from tests.equations.drawing import Draw


def naive(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, bias: Tensor) -> Tensor:
    """One query at a time, one key at a time, in plain Python numbers."""
    queries, keys, values, seen, added = (t.tolist() for t in (q, k, v, allowed, bias))
    out: list[list[float]] = []
    for i, query in enumerate(queries):
        scores = {
            j: sum(a * b for a, b in zip(query, key, strict=True)) / math.sqrt(q.shape[1]) + added[i][j]
            for j, key in enumerate(keys)
            if seen[i][j]
        }
        top = max(scores.values(), default=0.0)
        weights = {j: math.exp(s - top) for j, s in scores.items()}
        total = sum(weights.values()) or 1.0
        out.append([sum(w / total * values[j][c] for j, w in weights.items()) for c in range(v.shape[1])])
    return torch.tensor(out, dtype=q.dtype).view(*q.shape[:-1], v.shape[-1])


@cases(100)
@given(data=st.data())
def test_attention_equals_a_naive_loop(data: st.DataObject) -> None:
    """Batches of 0 to 4, lengths 0 to 33, 1 to 8 heads, odd widths, every kind of mask, grouped heads."""
    draw = Draw(data, data.draw(st.sampled_from([torch.float32, torch.float64])))
    batch, groups, shared = draw.integer(0, 4), draw.choose(1, 2, 3), draw.choose(1, 2)
    queries, keys = draw.integer(0, draw.choose(4, 33)), draw.integer(0, draw.choose(4, 33))
    d, value_dim = draw.integer(1, 7), draw.integer(1, 7)
    q = draw.normal(batch, groups * shared, queries, d)
    k, v = draw.normal(batch, groups, keys, d), draw.normal(batch, groups, keys, value_dim)
    allowed = torch.rand(batch, 1, queries, keys, generator=draw.generator) < draw.choose(0.1, 0.5, 0.9, 1.1)
    blocked = draw.choose(None, -torch.inf, -1e9)
    mask = allowed if blocked is None else torch.where(allowed, 0.0, blocked).to(draw.dtype)
    bias = draw.choose(None, draw.normal(groups * shared, queries, keys))
    causal = draw.choose(False, True)
    visible = allowed & causal_mask(queries, keys).eq(0) if causal else allowed
    wanted = torch.zeros(batch, groups * shared, queries, value_dim, dtype=draw.dtype)
    for b in range(batch):
        for h in range(groups * shared):
            added = torch.zeros(queries, keys) if bias is None else bias[h]
            wanted[b, h] = naive(q[b, h], k[b, h // shared], v[b, h // shared], visible[b, 0], added)
    for way in (nullcontext(), reference_mode()):
        with no_checks(), way:
            o = attention(q, k, v, mask, bias, causal)
        assert o.shape == (batch, groups * shared, queries, value_dim)
        assert not o.isnan().any()
        assert_close(o, wanted)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_tiles_of_any_size_give_plain_attention(data: st.DataObject) -> None:
    draw = Draw(data)
    batch, queries, keys, d = draw.lead(), draw.integer(1, 6), draw.integer(1, 9), draw.integer(1, 5)
    q, k, v = draw.normal(*batch, queries, d), draw.normal(*batch, keys, d), draw.normal(*batch, keys, d)
    mask = draw.choose(None, draw.flags(queries, keys))
    assert_close(tiled_attention(q, k, v, mask, block=draw.integer(1, 10)), attention.fn(q, k, v, mask))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_half_precision_is_no_worse_than_twice_torch(data: st.DataObject, dtype: torch.dtype) -> None:
    """Error against float64 at most twice that of torch's own kernel in the same type, plus one rounding."""
    draw = Draw(data, dtype)
    q, k, v = (draw.normal(2, draw.integer(1, 16), 8) for _ in range(3))
    k, v = (t[:, : min(k.shape[1], v.shape[1])] for t in (k, v))
    exact = attention.fn(q.double(), k.double(), v.double())
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v).double() - exact
    room = 2 * theirs.abs().max() + 4 * torch.finfo(dtype).eps
    assert (attention(q, k, v).double() - exact).abs().max() <= room
    assert (attention.fn(q, k, v).double() - exact).abs().max() <= room


@cases(100)
@given(data=st.data())
def test_the_future_does_not_leak(data: st.DataObject) -> None:
    """Change a later token: earlier outputs stay equal to the last bit (N4)."""
    draw = Draw(data, torch.float32)
    n, d = draw.integer(2, 9), draw.integer(1, 5)
    q, k, v = (draw.normal(2, n, d) for _ in range(3))
    t = draw.integer(1, n - 1)
    changed = [tensor.clone() for tensor in (q, k, v)]
    for tensor in changed:
        tensor[:, t:] = draw.normal(2, n - t, d)
    for run in (attention.fn, attention):
        before, after = run(q, k, v, causal=True), run(*changed, causal=True)
        assert torch.equal(before[:, :t], after[:, :t])


@cases(100)
@given(data=st.data())
def test_without_positions_order_does_not_matter(data: st.DataObject) -> None:
    """R82: permuting the rows permutes the output."""
    draw = Draw(data)
    n, d = draw.integer(1, 8), draw.integer(1, 5)
    x, order = draw.normal(n, d), torch.randperm(n, generator=draw.generator)
    assert_close(attention(x[order], x[order], x[order]), attention(x, x, x)[order])


@cases(100)
@given(data=st.data())
def test_padding_changes_nothing(data: st.DataObject) -> None:
    draw = Draw(data)
    n, padded, d = draw.integer(1, 6), draw.integer(1, 4), draw.integer(1, 5)
    q, k, v = draw.normal(n, d), draw.normal(n, d), draw.normal(n, d)
    more_k, more_v = torch.cat([k, draw.normal(padded, d)]), torch.cat([v, 1e3 * draw.normal(padded, d)])
    keep = torch.arange(n + padded) < n
    assert_close(attention(q, more_k, more_v, mask=keep[None]), attention(q, k, v))


def test_fully_masked_rows_give_zeros_and_zero_gradients() -> None:
    q, k, v = (torch.randn(1, 2, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    for blocked in (-torch.inf, -1e9):
        mask = torch.zeros(3, 3, dtype=torch.float64)
        mask[1] = blocked
        with Tape() as tape:
            plain = attention(q, k, v, mask)
        fast = attention(q, k, v, mask)
        assert plain[..., 1, :].eq(0).all() and fast[..., 1, :].eq(0).all()
        seed = torch.randn_like(plain)
        found = tape.reverse(seed)
        assert found[q][..., 1, :].eq(0).all()
        for leaf, wanted in zip((q, k, v), torch.autograd.grad(fast, (q, k, v), seed), strict=True):
            assert not wanted.isnan().any()
            assert_close(found[leaf], wanted)


def test_heads_split_and_merge_are_inverse_and_equal_a_loop_over_heads() -> None:
    """R105: one joint projection and a reshape equals separate narrow projections."""
    x, W = torch.randn(2, 5, 12), torch.randn(12, 12)
    joint = split_heads(x @ W, 3)
    for head in range(3):
        assert_close(joint[:, head], x @ W[:, 4 * head : 4 * head + 4])
    assert torch.equal(merge_heads(joint), x @ W)
    assert torch.equal(repeat_kv(joint, 6)[:, 3], joint[:, 1])


def test_scores_have_unit_variance_whatever_the_width() -> None:
    """R93: zero-mean unit-variance entries give scores of variance one after scaling."""
    generator = torch.Generator().manual_seed(0)
    for d in (4, 64, 512):
        q, k = (torch.randn(400, d, generator=generator, dtype=torch.float64) for _ in range(2))
        assert attention_scores(q, k).var().item() == pytest.approx(1, abs=0.05)
        assert attention_scores(q, k, 1.0).var().item() == pytest.approx(d, rel=0.05)


BAD = [
    (lambda x: attention(x[..., :3], x, x), r"k has shape .*head_dim = 3 \(from q\)"),
    (lambda x: attention(x, x, x[:, :, :2]), r"v has shape"),
    (lambda x: attention(x, x[:, :3], x[:, :3]), r"k is of shape \[2, 3, 5, 4\], wanted the leading axes \[2, 4\]"),
    (lambda x: attention(x, x[:1], x[:1]), r"k is of shape"),
    (lambda x: attention(x, x, x, mask=torch.zeros(4, 5)), r"mask has shape \[4, 5\]"),
    (lambda x: attention(x, x, x, mask=torch.zeros(3, 1, 5, 5)), r"mask has shape \[3, 1, 5, 5\]"),
    (lambda x: attention(x, x, x, mask=torch.zeros(5, 5).long()), "mask has type int64, wanted float or bool"),
    (lambda x: attention(x, x, x, bias=torch.zeros(5, 6)), r"bias has shape \[5, 6\]"),
    (lambda x: attention(x, x.double(), x), "k is torch.float64, wanted torch.float32, the dtype of q"),
    (lambda x: attention(x, x * torch.nan, x), "k is NaN or infinite in some entries"),
    (lambda x: attention(x, x, x, softcap=0.0), "softcap is 0.0, wanted a number above zero"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_named(call: object, message: str) -> None:
    with pytest.raises(EquationError, match=f"^attention: {message}"):
        call(torch.randn(2, 4, 5, 4))  # type: ignore[operator]


def test_heads_that_do_not_divide_are_named() -> None:
    with pytest.raises(
        EquationError, match="^split_heads: x is of shape .2, 10., wanted a last axis that 3 heads divide evenly"
    ):
        split_heads(torch.ones(2, 10), 3)
    with pytest.raises(EquationError, match="^repeat_kv: heads is 3, wanted a multiple of the 2 key-value heads"):
        repeat_kv(torch.ones(2, 4, 5), 3)


@pytest.mark.parametrize("keys", [7, 64])
def test_on_a_cpu_short_attention_in_bfloat16_has_the_gradients_of_float32_rounded(keys: int) -> None:
    torch.manual_seed(keys)
    half = [torch.randn(2, 3, keys, 8).bfloat16().requires_grad_() for _ in range(3)]
    exact = [t.detach().float().requires_grad_() for t in half]
    seed = torch.randn(2, 3, keys, 8).bfloat16()
    found = torch.autograd.grad(attention(*half, causal=True), half, seed)
    wanted = torch.autograd.grad(attention(*exact, causal=True), exact, seed.float())
    assert all(torch.equal(one, other.bfloat16()) for one, other in zip(found, wanted, strict=True))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(torch.autograd.grad(attention(*half, causal=True), half, seed)[0], found[0])
