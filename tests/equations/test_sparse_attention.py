"""Sparse attention in pieces is attention by a mask, in value and gradient, and holds no square of all pairs."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from glassformer.equation import Equation
from glassformer.equations import attention_in_pieces
from glassformer.equations.attention import attention
from glassformer.equations.block_attention import block_attention
from glassformer.equations.window_attention import window_attention
from glassformer.kernel_calls import MemoryMeter

LONG, BATCH = 4096, 2
SPARSE: dict[str, tuple[Equation[..., Tensor], dict[str, int]]] = {
    "window": (window_attention, {"w": 16}),
    "dilated": (window_attention, {"w": 16, "d": 3}),
    "blocks": (block_attention, {"b": 48}),
}
EVERY = pytest.mark.parametrize("name", SPARSE)


@contextmanager
def kernel(compiled: bool, rows: int) -> Iterator[None]:
    """The kernel of a compiled model, for a GPU, or that of a CPU, with so many queries in a piece."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_in_pieces, "ROWS", rows)
        patch.setattr(torch.compiler, "is_compiling", lambda: compiled)
        yield


@pytest.mark.parametrize("compiled", [False, True], ids=["cpu", "gpu"])
@settings(max_examples=60, deadline=None)
@given(
    lead=st.sampled_from([(), (4,), (2, 4), (2, 3, 4)]),
    grouped=st.booleans(),
    queries=st.integers(1, 70),
    earlier=st.integers(0, 30),
    size=st.integers(1, 20),
    dilation=st.integers(0, 4),
    added=st.tuples(st.sampled_from(["none", "boolean", "added", "of each query"]), st.sampled_from([None, 2.0])),
)
def test_pieces_are_the_pattern_by_its_mask(
    compiled: bool,
    lead: tuple[int, ...],
    grouped: bool,
    queries: int,
    earlier: int,
    size: int,
    dilation: int,
    added: tuple[str, float | None],
) -> None:
    padding, softcap = added
    generator = torch.Generator().manual_seed(queries)
    kv = (*lead[:-1], 2) if lead and grouped else lead

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)

    q, k, v = normal(*lead, queries, 3), normal(*kv, queries + earlier, 3), normal(*kv, queries + earlier, 5)
    heads = (1,) if lead else ()
    real = torch.rand((*lead[:-1], *heads, 1, queries + earlier), generator=generator) > 0.3
    if padding == "of each query":
        real = torch.rand((queries, queries + earlier), generator=generator) > 0.3
    mask = {"none": None, "boolean": real}.get(padding, torch.where(real, 0.25, -torch.inf).double())
    more: dict[str, object] = {"mask": mask, "scale": 0.7, "softcap": softcap}
    more |= {"b": size} if dilation == 0 else {"w": size, "d": dilation}
    equation: Equation[..., Tensor] = block_attention if dilation == 0 else window_attention
    with kernel(compiled, 4):
        found = equation.kernel(q, k, v, **more)
        seed = torch.randn(found.shape, generator=generator, dtype=torch.float64)
        gradients = torch.autograd.grad(found, (q, k, v), seed)
    plain = equation.fn(q, k, v, **more)
    assert_close(found, plain)
    assert_close(gradients, torch.autograd.grad(plain, (q, k, v), seed))


def peak(attend: Callable[[Tensor, Tensor, Tensor], Tensor], dim: int) -> int:
    """The most bytes that tensors take at once in a forward and a backward pass over a long text."""
    generator = torch.Generator().manual_seed(0)
    with MemoryMeter() as meter:
        q, k, v = (torch.randn(1, 2, LONG, dim, generator=generator, requires_grad=True) for _ in range(3))
        attend(q, k, v).sum().backward()
    return meter.peak


@EVERY
def test_a_long_text_keeps_no_square(name: str) -> None:
    equation, sizes = SPARSE[name]
    for mask in (None, torch.ones(1, 1, 1, LONG, dtype=torch.bool)):
        found = peak(lambda q, k, v: equation(q, k, v, **sizes, mask=mask), 8)  # noqa: B023 - called at once
        assert found < LONG * LONG, "bytes; a mask over all pairs has four times as many"


@EVERY
def test_a_training_step_takes_less_memory_than_full_attention(name: str) -> None:
    equation, sizes = SPARSE[name]
    full = peak(lambda q, k, v: attention(q, k, v, causal=True), 32)
    assert peak(lambda q, k, v: equation(q, k, v, **sizes), 32) < full


@EVERY
def test_a_long_text_takes_less_time_than_full_attention(name: str) -> None:
    equation, sizes = SPARSE[name]
    q = torch.randn(1, 2, LONG, 32, generator=torch.Generator().manual_seed(0))

    def seconds(attend: Callable[[], Tensor]) -> float:
        begun = time.perf_counter()
        attend()
        return time.perf_counter() - begun

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # how well either uses several is another matter
    try:
        full = min(seconds(lambda: attention(q, q, q, causal=True)) for _ in range(5))
        sparse = min(seconds(lambda: equation(q, q, q, **sizes)) for _ in range(5))
    finally:
        torch.set_num_threads(threads)
    assert sparse < full


def test_a_window_as_long_as_the_text_is_full_attention() -> None:
    q = torch.randn(1, 2, 600, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    full = attention(q, q, q, causal=True)
    for window in (600, 601, 10**6):
        assert_close(window_attention(q, q, q, window), full)
    for block in (600, 601, 10**6):
        assert_close(block_attention(q, q, q, block), full)
    assert_close(block_attention(q, q, q, 1), full)


@EVERY
def test_autocast_in_bfloat16_trains(name: str) -> None:
    equation, sizes = SPARSE[name]
    q = torch.randn(BATCH, 2, 600, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        found = equation(q, q, q, **sizes)
    (gradient,) = torch.autograd.grad(found.float().square().sum(), q)
    plain = equation.fn(q, q, q, **sizes)
    (wanted,) = torch.autograd.grad(plain.square().sum(), q)
    assert found.dtype == torch.bfloat16
    assert_close(found.float(), plain, rtol=0.05, atol=0.05)
    assert_close(gradient, wanted, rtol=0.1, atol=0.2)
