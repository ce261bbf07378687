"""Attention with dropout on a CPU agrees with its formula, with the same draws, and so do its gradients."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from glassformer.equation import no_checks
from glassformer.equations.attention import attention, dropout_attention
from tests.equations.drawing import Draw

CASES = settings(max_examples=40, deadline=None)
NEAR = {"rtol": 1e-4, "atol": 1e-4}  # sums of a few numbers near one, in another order


def by_kernel(o: Tensor) -> bool:
    """Whether attention was computed some queries at a time; it needs a gradient."""
    assert o.grad_fn is not None
    node = o.grad_fn.next_functions[0][0]
    return node is not None and node.name() == "_DropoutAttentionBackward"


@CASES
@given(data=st.data())
def test_it_is_its_formula_with_the_same_draws(data: st.DataObject) -> None:
    draw = Draw(data)
    lead, head_dim, causal = draw.choose((), (2,), (2, 3), (2, 1, 3)), draw.integer(1, 6), draw.choose(True, False)
    queries = draw.integer(1 if causal else 0, 150)
    kv_lead = (*lead[:-1], 1) if lead and draw.choose(True, False) else lead
    keys = queries if causal else draw.integer(1, 150)
    q = torch.randn(*lead, queries, head_dim)
    k, v = torch.randn(*kv_lead, keys, head_dim), torch.randn(*kv_lead, keys, 3)
    inputs, p, scale = [t.requires_grad_() for t in (q, k, v)], 0.3, draw.choose(None, 0.7)
    torch.manual_seed(draw.integer(0, 99))
    seed, state = torch.randn(*lead, queries, 3), torch.get_rng_state()
    ours = dropout_attention(q, k, v, causal=causal, scale=scale, p=p)
    after = torch.get_rng_state()
    torch.set_rng_state(state)
    theirs = dropout_attention.fn(q, k, v, None, causal, scale, p)
    assert by_kernel(ours) and not by_kernel(theirs)
    assert torch.equal(after, torch.get_rng_state()), "both draw as many numbers"
    assert_close(ours, theirs, **NEAR)
    found, wanted = (torch.autograd.grad(o, inputs, seed) for o in (ours, theirs))
    assert_close(found, wanted, **NEAR)


def test_without_a_chance_of_dropping_it_is_attention() -> None:
    q, k, v = (torch.randn(2, 3, 70, 4) for _ in range(3))
    assert_close(dropout_attention(q, k, v, causal=True), attention(q, k, v, causal=True), **NEAR)


def test_what_it_cannot_compute_goes_by_the_formula() -> None:
    q, k, v = (torch.randn(2, 3, 7, 4, requires_grad=True) for _ in range(3))
    assert not by_kernel(dropout_attention(q, k, v, torch.zeros(7, 7), p=0.1))
    assert not by_kernel(dropout_attention(q[:, :, :5], k, v, causal=True, p=0.1))
    assert not by_kernel(dropout_attention(q.double(), k.double(), v.double(), p=0.1))
    with torch.autocast("cpu", torch.bfloat16):
        assert not by_kernel(dropout_attention(q, k, v, p=0.1))


def test_the_future_stays_masked_whatever_the_default_device() -> None:
    q, k, v = (torch.randn(1, 1, 5, 4, requires_grad=True) for _ in range(3))
    with torch.device("meta"), no_checks():
        o = dropout_attention(q, k, v, causal=True)
    assert by_kernel(o)
    assert_close(o, attention(q, k, v, causal=True), **NEAR)
