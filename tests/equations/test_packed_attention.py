"""Documents in one row attend as each would alone, by mask and by bounds."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from glassformer.equations.attention import attention
from glassformer.equations.packed_attention import document_mask, document_positions, packed_attention
from glassformer.errors import EquationError
from glassformer.torch_private import flash_documents, rows_as_one


def bounds(*lengths: int) -> Tensor:
    return torch.tensor([0, *lengths]).cumsum(0)[None].int()


def test_a_worked_example() -> None:
    assert document_positions(bounds(2, 0, 3), 5).tolist() == [[0, 1, 0, 1, 2]]
    seen = (document_mask(bounds(2, 1), bounds(1, 2), 3, 3) == 0).int().tolist()
    assert seen == [[[[1, 0, 0], [1, 0, 0], [0, 1, 1]]]]
    causal = (document_mask(bounds(2, 1), bounds(2, 1), 3, 3, causal=True) == 0).int().tolist()
    assert causal == [[[[1, 0, 0], [1, 1, 0], [0, 0, 1]]]]
    assert document_positions.cell((0, 3), bounds(2, 0, 3), 5) == "3 − 2 = 1"


@given(
    lengths=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=5),
    causal=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_each_document_attends_as_it_does_alone(lengths: list[tuple[int, int]], causal: bool, seed: int) -> None:
    chance = torch.Generator().manual_seed(seed)
    lengths.append((1, 1))  # a row has a token
    queries, keys = (sum(side) for side in zip(*lengths, strict=True))
    q, k, v = (torch.randn(1, 2, n, 3, generator=chance, dtype=torch.float64) for n in (queries, keys, keys))
    c, e = (bounds(*side) for side in zip(*lengths, strict=True))
    found = packed_attention(q, k, v, c, e, causal=causal)
    at = there = 0
    for asked, known in lengths:
        alone = [t[:, :, first : first + n] for t, first, n in ((q, at, asked), (k, there, known), (v, there, known))]
        mine = found[:, :, at : at + asked]
        if asked and known:
            assert_close(mine, attention(*alone, causal=causal))
        else:
            assert not mine.any(), "there is nothing to attend to"
        at, there = at + asked, there + known


def test_rows_as_one_have_the_documents_of_each() -> None:
    two = torch.cat([bounds(2, 3), bounds(4, 1)])
    assert rows_as_one(two, 5).tolist() == [0, 2, 5, 5, 9, 10]
    assert rows_as_one(bounds(2, 3), 5).dtype == torch.int32
    q, k, v = (torch.randn(2, 2, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) for _ in "qkv")
    one = (t.transpose(0, 1).flatten(1, 2)[None] for t in (q, k, v))
    long = packed_attention(*one, rows_as_one(two, 5)[None], rows_as_one(two, 5)[None])
    assert_close(long[0].unflatten(1, (2, 5)).transpose(0, 1), packed_attention(q, k, v, two, two))


def test_the_kernel_of_a_gpu_is_not_asked_elsewhere() -> None:
    half = torch.zeros(1, 1, 2, 8, dtype=torch.bfloat16)
    assert flash_documents(half, half, half, (bounds(2), bounds(2)), None, False, None, 0.0) is None


@pytest.mark.parametrize("wrong", [[1, 5], [0, 4], [0, 6], [0, 3, 2, 5]])
def test_bounds_that_do_not_cover_a_row_are_an_error(wrong: list[int]) -> None:
    x, c = torch.zeros(1, 1, 5, 2), torch.tensor([wrong])
    with pytest.raises(EquationError, match="bounds that rise from 0 to 5, the number of tokens"):
        packed_attention(x, x, x, c, c)
    with pytest.raises(EquationError, match="bounds that rise from 0 to 5"):
        document_positions(c, 5)
    with pytest.raises(EquationError, match="bounds that rise from 0 to 5"):
        document_mask(c, c, 5, 5)


def test_a_kernel_needs_room_for_the_longest_document() -> None:
    x = torch.zeros(1, 1, 5, 2)
    with pytest.raises(EquationError, match="longest is 2, wanted at least 3"):
        packed_attention(x, x, x, bounds(2, 3), bounds(2, 3), longest=2)
