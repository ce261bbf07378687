"""Embeddings: the worked examples, and agreement with torch's own look-up, one-hot and linear maps."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional
from torch.testing import assert_close

from glassformer.equations.embedding import embed, scale_embedding, unembed
from glassformer.equations.information import one_hot
from glassformer.equations.matrices import matmul
from glassformer.equations.softmax import softmax
from glassformer.errors import EquationError
from glassformer.recording import Tape

CASES = settings(max_examples=100, deadline=None)
SEEDS = st.integers(0, 2**31 - 1)
SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)


def random(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def random_ids(seed: int, vocab: int, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randint(vocab, shape, generator=torch.Generator().manual_seed(seed))


def test_a_one_hot_column_selects_a_column() -> None:
    W = torch.tensor([[0.1, -0.3, 0.5], [0.2, 0.4, -0.6]])
    x = one_hot(torch.tensor([1]), 3).T
    assert matmul(W, x)[:, 0].tolist() == W[:, 1].tolist()
    assert torch.equal(embed(W.T, torch.tensor(1)), W[:, 1])


def test_the_tied_output_of_the_worked_example() -> None:
    E = torch.tensor([[0.1, 0.2], [-0.3, 0.4], [0.5, -0.6]], dtype=torch.float64)
    logits = unembed(torch.tensor([1.0, 2.0], dtype=torch.float64), E)
    assert_close(logits.tolist(), [0.5, 0.5, -0.7], rtol=1e-14, atol=0)
    wanted = [0.43455697690506495, 0.43455697690506495, 0.13088604618987004]
    assert_close(softmax(logits).tolist(), wanted, rtol=1e-14, atol=0)
    assert embed(E, torch.tensor(1)).tolist() == [-0.3, 0.4]


@CASES
@given(seed=SEEDS, vocab=st.integers(1, 9), dim=st.integers(1, 9), shape=SHAPES)
def test_look_up_equals_torch_forward_and_backward(seed: int, vocab: int, dim: int, shape: tuple[int, ...]) -> None:
    E, ids = random(seed, vocab, dim).requires_grad_(), random_ids(seed, vocab, shape)
    with Tape() as tape:
        e = embed(E, ids)
    wanted = functional.embedding(ids, E)
    assert torch.equal(e, wanted) and e.shape == (*shape, dim)
    bar = random(seed + 1, *e.shape)
    (gradient,) = torch.autograd.grad(wanted, E, bar)
    assert_close(tape.reverse(bar)[E], gradient, rtol=1e-12, atol=1e-14)


@CASES
@given(seed=SEEDS, vocab=st.integers(1, 9), shape=SHAPES)
def test_a_lookup_is_a_product_with_one_hot_vectors(seed: int, vocab: int, shape: tuple[int, ...]) -> None:
    E, ids = random(seed, vocab, 3), random_ids(seed, vocab, shape)
    x = one_hot(ids, vocab, torch.float64)
    assert torch.equal(x, functional.one_hot(ids, vocab).double())
    assert torch.equal(x @ E, embed(E, ids))
    assert torch.equal(x.argmax(-1), ids)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_ids_of_any_whole_type_do(dtype: torch.dtype) -> None:
    E, ids = random(0, 5, 2), torch.tensor([4, 0, 4], dtype=dtype)
    with Tape() as tape:
        e = embed(E, ids)
    assert torch.equal(e, E[[4, 0, 4]]) and torch.equal(embed(E, ids), e)
    assert tape.reverse(torch.ones_like(e))[E].sum(1).tolist() == [2.0, 0.0, 0.0, 0.0, 4.0]
    assert one_hot(ids, 5).argmax(-1).tolist() == [4, 0, 4]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_gradient_of_a_frequent_token_is_not_lost(dtype: torch.dtype) -> None:
    E = torch.zeros(2, 1, dtype=dtype)
    with Tape() as tape:
        e = embed(E, torch.zeros(4096, dtype=torch.long))
    assert tape.reverse(torch.ones_like(e))[E].tolist() == [[4096.0], [0.0]]


@CASES
@given(seed=SEEDS, dim=st.integers(1, 64))
def test_scaled_embeddings_are_longer_by_the_root_of_their_width(seed: int, dim: int) -> None:
    x = random(seed, 3, dim)
    assert_close(scale_embedding(x), x * dim**0.5)
    assert_close(scale_embedding(x).norm(dim=-1) / x.norm(dim=-1), torch.full((3,), math.sqrt(dim)).double())


@CASES
@given(seed=SEEDS, vocab=st.integers(1, 9), dim=st.integers(1, 9))
def test_unembed_equals_a_tied_linear_layer(seed: int, vocab: int, dim: int) -> None:
    layer, h = torch.nn.Linear(dim, vocab, bias=False, dtype=torch.float64), random(seed, 2, 3, dim)
    assert_close(unembed(h, layer.weight), layer(h))
    E = random(seed, vocab, dim)
    logits = unembed(embed(E, torch.arange(vocab)), E)
    assert_close(logits, logits.T)  # with tied weights the logit of b after a is that of a after b


E, H = torch.randn(5, 4), torch.randn(2, 4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: embed(E, torch.tensor([0, 5])), "embed: ids is between 0 and 5, wanted between 0 and 4, the ids"),
        (lambda: embed(E, torch.tensor([-1, 2])), "ids is between -1 and 2, wanted between 0 and 4"),
        (lambda: embed(E, torch.tensor([1.0])), "ids has type float32, wanted int"),
        (lambda: embed(E, torch.tensor([True])), "ids has type bool, wanted int"),
        (lambda: embed(E, [0, 1]), "ids is a list, wanted a tensor"),
        (lambda: embed(E[0], torch.tensor([0])), r"E has shape \[4\], wanted \[vocab dim\]"),
        (lambda: embed(E.long(), torch.tensor([0])), "E has type int64, wanted float"),
        (lambda: one_hot(torch.tensor([3]), 3), "one_hot: ids is between 3 and 3, wanted between 0 and 2"),
        (lambda: one_hot(torch.tensor([-1]), 3), "ids is between -1 and -1, wanted between 0 and 2"),
        (lambda: one_hot(torch.tensor([0]), 0), "size is 0, wanted a whole number, at least 1"),
        (lambda: one_hot(torch.tensor([0]), 2, torch.int64), "dtype is torch.int64, wanted a float type"),
        (lambda: scale_embedding(torch.arange(3)), "scale_embedding: x has type int64, wanted float"),
        (lambda: unembed(H, E.T), r"unembed: E has shape \[4, 5\], wanted \[vocab dim\] with .*dim = 4 \(from h\)"),
        (lambda: unembed(torch.tensor(1.0), E), r"h has shape \[\], wanted \[\*batch dim\]"),
    ],
)
def test_bad_input_is_named(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(EquationError, match=message):
        wrong()
