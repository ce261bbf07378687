"""Plain torch operations between equations: a tape replays and reverses a run whole, or says that it cannot."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from glassformer.equation import reference_mode
from glassformer.equations.activations import relu, tanh
from glassformer.equations.algebra import add, linear, multiply
from glassformer.errors import TapeError
from glassformer.recording import Tape

EQUATIONS = {"tanh": lambda a, _: tanh(a), "add": add, "multiply": multiply}
PLAIN = {"sine": lambda a, _: torch.sin(a), "minus": lambda a, b: a - b, "row": lambda a, _: a[:1].expand_as(a)}


@dataclass(frozen=True)
class Program:
    """Operations, each on the results of two before it; the first two are what goes in."""

    lines: tuple[tuple[str, int, int], ...]

    def run(self, values: list[Tensor], changed: tuple[int, Tensor] | None = None) -> list[Tensor]:
        """All values, with one put in the place of what a line gives."""
        values = list(values)
        for name, first, second in self.lines:
            result = {**EQUATIONS, **PLAIN}[name](values[first], values[second])
            values.append(changed[1] if changed is not None and len(values) == changed[0] else result)
        return values


@st.composite
def programs(draw: st.DrawFn) -> Program:
    count = draw(st.integers(2, 7))
    before = [st.integers(0, 1 + line) for line in range(count)]
    names = st.sampled_from([*EQUATIONS, *EQUATIONS, *PLAIN])
    return Program(tuple((draw(names), draw(earlier), draw(earlier)) for earlier in before))


def recorded(program: Program) -> tuple[list[Tensor], Tape]:
    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(2, 3, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(2)]
    with Tape() as tape:
        values = program.run(given)
    return values, tape


@given(programs(), st.data())
def test_a_changed_value_reaches_all_it_leads_to_or_it_is_an_error(program: Program, data: st.DataObject) -> None:
    values, tape = recorded(program)
    made = [i for i, line in enumerate(program.lines, 2) if line[0] in EQUATIONS]
    if not made:
        return
    index = data.draw(st.sampled_from(made))
    new = torch.full_like(values[index], 0.25)
    with reference_mode():
        wanted = program.run(values[:2], (index, new))[-1]
    try:
        found = tape.replay(changes=[(values[index], new)], of=values[-1])
    except TapeError as error:
        assert "not an equation" in str(error) or torch.equal(wanted, values[-1]), "it depends, and was not replayed"
    else:
        assert torch.equal(found, wanted)


@given(programs())
def test_gradients_are_autograds_or_it_is_an_error(program: Program) -> None:
    values, tape = recorded(program)
    met = {id(tensor) for step in tape.steps for tensor in (*step.input_tensors, *step.output_tensors)}
    if id(values[-1]) not in met:
        return
    seed = torch.ones_like(values[-1])
    found = tape.reverse(seed, of=values[-1])
    for value in values:
        (wanted,) = torch.autograd.grad(values[-1], value, seed, retain_graph=True, allow_unused=True)
        try:
            assert_close(found[value], wanted)
        except TapeError as error:
            unused = wanted is None or id(value) not in met
            assert unused or "not an equation" in str(error), "it counts, and has no gradient"


def test_equations_alone_are_never_refused() -> None:
    program = Program((("tanh", 0, 0), ("multiply", 2, 1), ("add", 3, 2)))
    values, tape = recorded(program)
    new = torch.zeros_like(values[2])
    assert_close(tape.replay(changes=[(values[2], new)], of=values[-1]), program.run(values[:2], (2, new))[-1])
    seed = torch.ones_like(values[-1])
    assert_close(tape.reverse(seed)[values[0]], torch.autograd.grad(values[-1], values[0], seed)[0])


def test_a_plain_operation_on_the_way_is_named() -> None:
    x = torch.randn(3)
    with Tape() as tape:
        y = tanh(x)
        z = relu(y.clamp(0, 1))
    with pytest.raises(
        TapeError, match=r"relu reads a changed value through torch\.Tensor\.clamp; it is not an equation"
    ):
        tape.replay(changes=[(y, x)])
    found = tape.reverse(torch.ones(3), of=z)
    for tensor in (x, y):
        assert tensor not in found
        with pytest.raises(TapeError, match=r"cannot go back through torch\.Tensor\.clamp; it is not an equation"):
            found[tensor]
    assert torch.equal(tape.replay(), z), "with nothing changed every step has what it had"


def test_a_plain_operation_at_the_end_is_named() -> None:
    with Tape() as tape:
        y = tanh(torch.randn(3))
        mean = y.mean()
    for ask in (
        lambda: tape.replay(changes=[(y, y + 1)], of=mean),
        lambda: tape.replay(of=mean),
        lambda: tape.reverse(of=mean)[y],
    ):
        with pytest.raises(TapeError, match=r"(made by|go back through) torch\.Tensor\.mean; it is not an equation"):
            ask()


def test_a_change_in_place_between_two_steps_is_named() -> None:
    with Tape() as tape:
        y = tanh(torch.randn(3))
        y += 1
        relu(y)
        h = tanh(torch.randn(2, 2))
        h[0].zero_()
        relu(h)
    for value in (y, h):
        with pytest.raises(TapeError, match=r"through torch\.Tensor\..*not an equation"):
            tape.replay(changes=[(value, value + 1)])


def test_a_weight_behind_a_plain_operation_is_not_left_without_its_gradient() -> None:
    weight = nn.Parameter(torch.randn(3, 2))
    with Tape() as tape:
        y = linear(torch.randn(4, 2), weight.T)
    with pytest.raises(TapeError, match="cannot go back through"):
        tape.reverse(torch.ones_like(y))[weight]


def test_what_is_no_way_for_a_gradient_is_let_through() -> None:
    x = torch.randn(3)
    with Tape() as tape:
        y = tanh(x)
        z = add(add(y, torch.zeros_like(y)), y.new_ones(3))
        z = multiply(multiply(z, y.detach()), (y > 0).float())
    found = tape.reverse(torch.ones(3), of=z)
    assert_close(found[y], y * (y > 0))


def test_a_tensor_that_never_met_the_tape_is_not_handed_back() -> None:
    x, other = torch.randn(3), torch.randn(3)
    with Tape() as tape:
        y, z = tanh(x), relu(x)
    with pytest.raises(TapeError, match=r"of shape \[3\], is not on the tape"):
        tape.replay(of=other)
    with pytest.raises(TapeError, match=r"of shape \[3\], is not on the tape"):
        tape.reverse(torch.ones(3), of=other)
    with pytest.raises(TapeError, match="does not depend on what was changed"):
        tape.replay(changes=[(y, x)], of=z)
    assert tape.replay(of=x) is x


def test_a_gradient_that_is_used_again_counts_as_a_number_from_outside() -> None:
    """As autograd's does, unless it is told to build a graph of it."""
    x = torch.tensor(3.0)
    with Tape() as tape:
        height = multiply(x, x)
        slope = tape.reverse(of=height)[x]
        lower = add(x, multiply(slope, torch.tensor(-0.1)))
        again = multiply(lower, lower)
        found = tape.reverse(of=again)
    assert float(found[lower]) == pytest.approx(4.8) and float(found[slope]) == pytest.approx(-0.48)
