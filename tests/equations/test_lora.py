"""Low-rank adaptation: a worked example, merged equals unmerged, and what is refused."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from glassformer.equations.algebra import linear
from glassformer.equations.lora import lora, merge_lora
from glassformer.errors import EquationError
from tests.equations.drawing import Draw, draw_arguments

X = torch.tensor([[1.0, 2.0]])
W, A, B = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[1.0], [1.0]]), torch.tensor([[2.0, -1.0]])


def test_a_worked_example() -> None:
    """x A = 3; B spreads it to (6, −3); α/r = 2/1 doubles that; W leaves x as it is."""
    assert_close(lora(X, W, A, B, 2.0), torch.tensor([[13.0, -4.0]]))
    assert_close(merge_lora(W, A, B, 2.0), torch.tensor([[5.0, -2.0], [4.0, -1.0]]))
    assert lora.cell((0, 1), X, W, A, B, 2.0) == "1·0 + 2·1 + 2/1·(3·(−1)) = −4"
    assert merge_lora.cell((1, 0), W, A, B, 2.0) == "0 + 2/1·(1·2) = 4"


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_merged_equals_unmerged_and_the_update_has_the_rank(data: st.DataObject) -> None:
    arguments = draw_arguments(lora, Draw(data))  # pyright: ignore[reportArgumentType]
    x, b, matrices = arguments.pop("x"), arguments.pop("b"), arguments
    merged = merge_lora(**matrices)  # pyright: ignore[reportArgumentType]
    assert_close(linear(x, merged, b), lora(x, b=b, **matrices))  # pyright: ignore
    assert isinstance(matrices["A"], Tensor) and isinstance(matrices["W"], Tensor)
    assert int(torch.linalg.matrix_rank(merged - matrices["W"])) <= matrices["A"].shape[1]


def test_an_update_that_starts_at_zero_changes_nothing() -> None:
    assert torch.equal(lora(X, W, A, torch.zeros_like(B), 16.0), linear(X, W))
    assert torch.equal(merge_lora(W, A, torch.zeros_like(B), 16.0), W)


@pytest.mark.parametrize(
    ("A", "B", "alpha", "said"),
    [
        (A, B, 0.0, "alpha is 0.0, wanted a number above zero"),
        (torch.empty(2, 0), torch.empty(0, 2), 1.0, "A is of shape .2, 0., wanted a rank of 1 or more"),
        (A.double(), B, 1.0, "A is torch.float64, wanted torch.float32, the dtype of"),
        (A, torch.ones(2, 2), 1.0, "B has shape .2, 2."),
    ],
)
def test_what_does_not_fit_is_refused(A: Tensor, B: Tensor, alpha: float, said: str) -> None:
    for call in (lambda: lora(X, W, A, B, alpha), lambda: merge_lora(W, A, B, alpha)):
        with pytest.raises(EquationError, match=said):
            call()
