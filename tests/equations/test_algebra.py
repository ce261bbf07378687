"""Linear algebra against torch, and the properties that everything else leans on."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from glassformer.equations.algebra import add, linear, product_dtype, residual
from glassformer.equations.matrices import matmul
from glassformer.equations.sequences import concat
from glassformer.errors import EquationError
from glassformer.recording import Tape
from tests.equations.drawing import Draw


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_a_stack_of_rows_goes_through_at_once(data: st.DataObject) -> None:
    """R7, R8: row by row equals all together; two maps in a row are one; gradients return by the transpose."""
    draw = Draw(data)
    n, a, b, c = (draw.integer(1, 5) for _ in range(4))
    h, first, second = draw.normal(n, a).requires_grad_(), draw.normal(a, b), draw.normal(b, c)
    assert_close(matmul(h, first), torch.stack([linear(row, first) for row in h]))
    with Tape() as tape:
        out = linear(linear(h, first), second)
    assert_close(out, linear(h, matmul(first, second)))
    seed = draw.normal(n, c)
    assert_close(tape.reverse(seed)[h], seed @ second.T @ first.T)


def test_a_residual_stack_keeps_its_gradient_and_a_plain_one_loses_it() -> None:
    """R56 in one number: fifty layers of slope a tenth, with and without the way past."""
    h = torch.ones(1, dtype=torch.float64)
    W = torch.full((1, 1), 0.1, dtype=torch.float64)
    with Tape() as plain:
        x = h
        for _ in range(50):
            x = linear(x, W)
    with Tape() as skipping:
        x = h
        for _ in range(50):
            x = residual(x, linear(x, W))
    assert plain.reverse()[h].item() == pytest.approx(1e-50)
    assert skipping.reverse()[h].item() == pytest.approx(117.39085287969579)


def test_silent_broadcasts_are_refused() -> None:
    """A row of biases that torch would quietly repeat is an error here."""
    with pytest.raises(EquationError, match=r"^add: b has shape \[3\], wanted \[\*#shape\] with shape = 2, 4"):
        add(torch.ones(2, 4), torch.ones(3))
    with pytest.raises(EquationError, match=r"^residual: f has shape \[1, 4\]"):
        residual(torch.ones(2, 4), torch.ones(1, 4))
    with pytest.raises(EquationError, match=r"^matmul: B has shape \[4, 5\].*inner = 3 \(from A\)"):
        matmul(torch.ones(2, 3), torch.ones(4, 5))
    with pytest.raises(EquationError, match=r"^concat: parts is \[\[2, 3\], \[4, 3\]\], wanted shapes that agree"):
        concat([torch.ones(2, 3), torch.ones(4, 3)])
    with pytest.raises(EquationError, match="^concat: parts is empty"):
        concat([])


def test_products_have_the_dtype_of_autocast() -> None:
    x = torch.ones(2, 3)
    assert product_dtype(x) == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert product_dtype(x) == linear(x, x.T).dtype == torch.bfloat16
        assert product_dtype(x.to("meta")) == torch.float32, "torch refuses to say"
