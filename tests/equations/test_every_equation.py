"""The same questions, asked of every equation in the catalog over random inputs."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import glassformer.equations  # noqa: F401 - fills the catalog
from glassformer.equation import Equation, catalog, no_checks, reference_mode
from glassformer.errors import EquationError
from glassformer.recording import Tape
from tests.arithmetic import as_python
from tests.cases import cases
from tests.equations.counting import count
from tests.equations.drawing import Draw, draw_arguments

CATALOG = catalog()
EVERY = pytest.mark.parametrize("name", CATALOG)
FLOAT = [n for n, e in CATALOG.items() if any(p.is_float for p in e.parameters) and any(r.is_float for r in e.results)]
FUSED = [n for n, e in CATALOG.items() if e.fused is not None]
CELLS = [n for n, e in CATALOG.items() if e._cell is not None]
COUNTED = [n for n, e in CATALOG.items() if any(p.is_tensor for p in e.parameters)]
STRAIGHT_THROUGH = (  # a gradient by convention, which autograd has and differences have not
    "round_straight_through", "fake_quantize_float8", "quantize_gradient_float8", "float8_linear",
)  # fmt: skip
CASES = cases(12)


def floats(value: object) -> list[Tensor]:
    """Float tensors of a value, sequences laid flat."""
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in floats(item)]
    return [value] if isinstance(value, Tensor) and value.is_floating_point() else []


def scalar(outputs: object, seeds: list[Tensor]) -> Tensor:
    """Outputs weighed by fixed random cotangents: a plain sum would hide errors. Infinite ones have no slope."""
    pairs = zip(floats(outputs), seeds, strict=True)
    return torch.stack([(output.masked_fill(output.isinf(), 0) * seed).sum() for output, seed in pairs]).sum()


def gradients_by_rule(equation: Equation[..., object], arguments: dict, draw: Draw, deep: bool = False) -> tuple:
    """Outputs, cotangents and the tape's gradients of one call."""
    with Tape() as tape:
        outputs = equation(**arguments)
    seeds = [draw.normal(*output.shape) for output in floats(outputs)]
    found: dict[int, Tensor] = {}
    for output, seed in zip(floats(outputs), seeds, strict=True):
        gradients = tape.reverse(seed, of=output, deep=deep)
        for value in arguments.values():
            for tensor in floats(value):
                if tensor in gradients:
                    found[id(tensor)] = found.get(id(tensor), 0) + gradients[tensor]
    return outputs, seeds, found


def both_ways(equation: Equation[..., object], arguments: dict) -> list[object]:
    """The outputs of the fused and of the plain form; both draw the same random numbers."""
    found = []
    for form in (equation.fused, equation.fn):
        if "generator" in arguments:
            arguments["generator"].manual_seed(0)
        assert form is not None
        found.append(form(**arguments))
    return found


@EVERY
def test_it_is_described(name: str) -> None:
    equation = CATALOG[name]
    assert equation.latex and equation.meaning.endswith(".") and equation.intuition.endswith((".", "?"))
    assert equation.__doc__, "the docstring is missing"
    for symbol in equation.symbols:
        assert symbol.meaning, f"{symbol.name} is not explained"
    assert {s.name for s in equation.symbols} == set(equation._words), "a symbol is explained that does not exist"


@pytest.mark.parametrize("name", FLOAT)
@CASES
@given(data=st.data())
def test_gradient_rule_equals_autograd(name: str, data: st.DataObject) -> None:
    draw = Draw(data)
    arguments = draw_arguments(CATALOG[name], draw)
    leaves = [t.requires_grad_() for value in arguments.values() for t in floats(value)]
    outputs, seeds, found = gradients_by_rule(CATALOG[name], arguments, draw)
    wanted = torch.autograd.grad(scalar(outputs, seeds), leaves, allow_unused=True)
    for leaf, reference in zip(leaves, wanted, strict=True):
        nothing = torch.zeros_like(leaf)
        by_rule = found.get(id(leaf), nothing)
        assert_close(by_rule, nothing if reference is None else reference, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", [name for name in FLOAT if name not in STRAIGHT_THROUGH])
@CASES
@given(data=st.data())
def test_gradient_rule_equals_central_differences(name: str, data: st.DataObject) -> None:
    draw = Draw(data)
    equation, step = CATALOG[name], 1e-6
    arguments = draw_arguments(equation, draw)
    _, seeds, found = gradients_by_rule(equation, arguments, draw)
    if "generator" in arguments:
        arguments["generator"].manual_seed(0)  # the same draws on both sides of the difference
    for key, value in arguments.items():
        for tensor in floats(value):
            direction = draw.normal(*tensor.shape)
            sides = []
            for sign in (1, -1):
                moved = tensor + sign * step * direction
                swapped = [moved if t is tensor else t for t in value] if isinstance(value, list) else moved
                generator = arguments.get("generator")
                if generator is not None:
                    generator.manual_seed(0)
                sides.append(scalar(equation.fn(**{**arguments, key: swapped}), seeds))
            slope = (sides[0] - sides[1]) / (2 * step)
            by_rule = (found[id(tensor)] * direction).sum() if id(tensor) in found else torch.zeros_like(slope)
            if generator is None:
                assert_close(by_rule, slope, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FLOAT)
@CASES
@given(data=st.data())
def test_outer_rule_equals_inner_rules(name: str, data: st.DataObject) -> None:
    draw = Draw(data)
    arguments = draw_arguments(CATALOG[name], draw)
    with Tape() as tape:
        outputs = CATALOG[name](**arguments)
    for output in floats(outputs):
        seed = draw.normal(*output.shape)
        outer, inner = tape.reverse(seed, of=output), tape.reverse(seed, of=output, deep=True)
        for tensor in (t for value in arguments.values() for t in floats(value)):
            assert (tensor in outer) == (tensor in inner)
            if tensor in outer:
                assert_close(outer[tensor], inner[tensor], rtol=1e-9, atol=1e-11)


@EVERY
@CASES
@given(data=st.data())
def test_replay_is_exact(name: str, data: st.DataObject) -> None:
    draw = Draw(data, data.draw(st.sampled_from([torch.float32, torch.float64, torch.bfloat16])))
    arguments = draw_arguments(CATALOG[name], draw)
    with Tape() as tape:
        outputs = CATALOG[name](**arguments)
    for deep in (False, True):
        again = tape.replay(deep)
        for one, other in zip(floats(outputs), floats(again), strict=True):
            assert torch.equal(one.nan_to_num(), other.nan_to_num())


@pytest.mark.parametrize("name", FUSED)
@CASES
@given(data=st.data())
def test_fused_equals_plain(name: str, data: st.DataObject) -> None:
    equation = CATALOG[name]
    draw = Draw(data, data.draw(st.sampled_from([torch.float32, torch.float64])))
    arguments = draw_arguments(equation, draw)
    assert equation.fused is not None
    assert_close(*both_ways(equation, arguments))


@pytest.mark.parametrize("name", FUSED)
@CASES
@given(data=st.data())
def test_fused_equals_plain_in_bfloat16(name: str, data: st.DataObject) -> None:
    equation = CATALOG[name]
    arguments = draw_arguments(equation, Draw(data, torch.bfloat16))
    assert equation.fused is not None
    assert_close(*both_ways(equation, arguments), rtol=1.6e-2, atol=1.6e-2)


@EVERY
@CASES
@given(data=st.data())
def test_float_type_is_kept(name: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]))
    arguments = draw_arguments(CATALOG[name], Draw(data, dtype))
    if any(floats(value) for value in arguments.values()):
        for output in floats(CATALOG[name](**arguments)):
            assert output.dtype == dtype


@pytest.mark.parametrize("name", COUNTED)
@CASES
@given(data=st.data())
def test_cost_equals_a_counted_run(name: str, data: st.DataObject) -> None:
    """By the formula where there is one, else as the sum over the parts, without computing anything."""
    equation = CATALOG[name]
    arguments = draw_arguments(equation, Draw(data))
    with reference_mode(), no_checks():
        found = equation.cost(**arguments).flops
        assert equation.operations(**arguments) == found == count(equation.fn, **arguments)


def evaluate(text: str) -> float:
    """Work out written arithmetic with ordinary rules."""
    names = {
        "sqrt": math.sqrt, "exp": math.exp, "ln": math.log, "log": math.log, "max": max, "min": min, "sin": math.sin,
        "cos": math.cos, "tanh": math.tanh, "inf": math.inf, "abs": abs, "pi": math.pi, "nan": math.nan,
        "Phi": lambda x: 0.5 * (1 + math.erf(x / math.sqrt(2))),
    }  # fmt: skip
    return eval(as_python(text), {"__builtins__": {}}, names)


@pytest.mark.parametrize("name", CELLS)
@CASES
@given(data=st.data())
def test_cell_arithmetic_evaluates_to_the_number(name: str, data: st.DataObject) -> None:
    equation = CATALOG[name]
    draw = Draw(data)
    arguments = draw_arguments(equation, draw)
    output = equation(**arguments)
    output = output[0] if isinstance(output, tuple) else output
    index = tuple(draw.integer(0, n - 1) for n in output.shape) if isinstance(output, Tensor) else ()
    written, _, value = equation.cell(index, **arguments).rpartition(" = ")
    number = float(output[index]) if isinstance(output, Tensor) else float(output)
    assert evaluate(value) == pytest.approx(number, rel=1e-3, abs=1e-9)
    assert evaluate(written) == pytest.approx(number, rel=2e-2, abs=5e-3)


@pytest.mark.parametrize("name", [n for n in CATALOG if any(p.is_tensor for p in CATALOG[n].parameters)])
@CASES
@given(data=st.data())
def test_wrong_types_and_shapes_are_named(name: str, data: st.DataObject) -> None:
    equation = CATALOG[name]
    draw = Draw(data)
    arguments = draw_arguments(equation, draw)
    tensors = [p for p in equation.parameters if isinstance(arguments.get(p.name), Tensor)]
    if not tensors:
        return
    parameter = draw.choose(*tensors)
    wrong = arguments[parameter.name].to(torch.complex64)
    for bad in (wrong, arguments[parameter.name].tolist(), "text"):
        with pytest.raises(EquationError, match=rf"^{name}: {parameter.name} "):
            equation(**{**arguments, parameter.name: bad})
