"""The Equation object: what hangs on it, how it dispatches, what it refuses."""

import copy
import pickle
import timeit

import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.testing import assert_close

from glassformer.equation import _CATALOG, CHECKS, MODE, Cost, catalog, equation, no_checks
from glassformer.equations.activations import gelu, relu
from glassformer.equations.algebra import linear, scale
from glassformer.equations.softmax import softmax
from glassformer.errors import EquationError
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.recording import Tape
from glassformer.views.reference import flops_text


def test_names_are_unique() -> None:
    with pytest.raises(ValueError, match="two equations are called relu"):

        @equation("x", meaning="m", symbols={"x": "x", "y": "y"})
        def relu(x: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
            return x

    assert catalog()["relu"].latex != "x"


def test_with_no_tape_the_fused_form_runs_and_under_a_tape_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(gelu, "kernel", lambda x: calls.append("fused") or x)
    monkeypatch.setattr(gelu, "fn", lambda x: calls.append("plain") or x + 1)
    gelu(torch.ones(2))
    with Tape():
        gelu(torch.ones(2))
    assert calls == ["fused", "plain"]


def test_symbols_carry_roles_shapes_and_words() -> None:
    symbols = {symbol.name: symbol for symbol in linear.symbols}
    assert [symbol.role for symbol in linear.symbols] == ["input", "input", "input", "output"]
    assert symbols["W"].shape == "[inputs outputs]"
    assert {symbol.name: symbol.role for symbol in scale.symbols} == {"x": "input", "c": "setting", "y": "output"}


def test_cost_is_known_without_computing() -> None:
    x, W = torch.empty(2, 3, 5, device="meta"), torch.empty(5, 7, device="meta")
    assert linear.cost(x, W) == Cost(flops=2 * 6 * 5 * 7, bytes=4 * (30 + 35 + 42))
    assert flops_text(linear).startswith("2·batch·inputs·outputs")


def test_cell_reads_like_a_person_wrote_it() -> None:
    x, W = torch.tensor([[0.1, 1.2, -0.1, 1.4]]), torch.tensor([[1.0], [0.0], [0.0], [1.0]])
    assert linear.cell((0, 0), x, W) == "0.1·1 + 1.2·0 − 0.1·0 + 1.4·1 = 1.5"
    long = linear.cell((0, 0), torch.ones(1, 100), torch.ones(100, 1))
    assert long == "1·1 + 1·1 + 1·1 + 1·1 + (96 from 96 more) = 100"


def test_half_precision_rounds_once() -> None:
    z = torch.randn(64, 512, dtype=torch.float64).mul(4)
    for dtype in (torch.bfloat16, torch.float16):
        exact = softmax(z.to(dtype).double()).to(dtype)
        error = (softmax.fn(z.to(dtype)).double() - exact.double()).abs()
        unit = torch.finfo(dtype).eps * exact.double().clamp_min(torch.finfo(dtype).tiny)
        assert (error <= unit).all()


BAD = [
    (lambda: softmax([1.0, 2.0]), r"softmax: z is a list, wanted a tensor of type float \[\*batch n\]"),
    (lambda: softmax(torch.ones(2, 3).long()), "softmax: z has type int64, wanted float"),
    (lambda: softmax(torch.tensor(1.0)), r"softmax: z has shape \[\], wanted \[\*batch n\]"),
    (
        lambda: softmax(torch.ones(3, 0)),
        r"softmax: z is of shape \[3, 0\], wanted at least one logit along the last axis",
    ),
    (lambda: softmax(torch.tensor([1.0, torch.nan])), "softmax: z is NaN or infinite"),
    (lambda: softmax(torch.tensor([1.0, torch.inf])), "softmax: z is NaN or infinite"),
    (
        lambda: linear(torch.ones(2, 3), torch.ones(4, 5)),
        r"linear: W has shape \[4, 5\], wanted \[inputs outputs\] with inputs = 3 \(from x\)",
    ),
    (
        lambda: linear(torch.ones(2, 3), torch.ones(3, 5), torch.ones(1)),
        r"linear: b has shape \[1\], wanted \[outputs\] with outputs = 5 \(from W\)",
    ),
    (lambda: linear(torch.ones(2, 3), torch.ones(3, 5).double()), "linear: W is torch.float64, wanted torch.float32"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_named(call: object, message: str) -> None:
    with pytest.raises(EquationError, match=f"^{message}"):
        call()  # type: ignore[operator]
    with Tape(), pytest.raises(ValueError, match=f"^{message}"):
        call()  # type: ignore[operator]


def test_checks_can_be_left_to_the_boundary_and_come_back() -> None:
    bad = torch.tensor([1.0, torch.nan])
    with no_checks():
        assert softmax(bad).isnan().all()
    with pytest.raises(EquationError):
        softmax(bad)
    assert MODE.checking and MODE.dispatcher is CHECKS


def test_an_error_inside_does_not_switch_checks_off() -> None:
    @equation("x", meaning="Fails.", symbols={"x": "x", "y": "y"})
    def fails_on_purpose(x: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fails_on_purpose(torch.ones(2))
    assert MODE.checking and MODE.dispatcher is CHECKS
    from glassformer.equation import _CATALOG

    del _CATALOG["fails_on_purpose"]


def test_dispatch_adds_less_than_a_microsecond() -> None:
    """The best of many short spells, the call beside the bare kernel: a spell is too short to be interrupted often."""
    x, calls = torch.randn(4), 100
    fused = relu.fused
    assert fused is not None
    with no_checks():
        spells = [
            (timeit.timeit(lambda: relu(x), number=calls), timeit.timeit(lambda: fused(x), number=calls))
            for _ in range(1000)
        ]
    added = min(a for a, _ in spells) - min(b for _, b in spells)
    assert added / calls < 1e-6


def test_integers_pass_through_the_tape_without_a_gradient() -> None:
    @equation("y_i = x_{j_i}", meaning="Picks.", symbols={"x": "x", "j": "which", "y": "y"})
    def pick_for_test(x: Float[Tensor, " n"], j: Int[Tensor, " m"]) -> Float[Tensor, " m"]:
        return x[j]

    @pick_for_test.def_gradient("scatter")
    def _rule(y_bar: Tensor, x: Tensor, j: Tensor) -> Tensor:
        return torch.zeros_like(x).index_add(0, j, y_bar)

    from glassformer.equation import _CATALOG

    del _CATALOG["pick_for_test"]
    x, j = torch.randn(5, dtype=torch.float64, requires_grad=True), torch.tensor([4, 0, 4])
    with Tape() as tape:
        y = pick_for_test(x, j)
    seed = torch.randn_like(y)
    assert_close(tape.reverse(seed)[x], torch.autograd.grad(y, x, seed)[0])
    assert j not in tape.reverse(seed)


def test_a_copy_of_a_model_holds_the_same_equations() -> None:
    model = build(GPTConfig(vocab=5, context=4, dim=4, layers=1, heads=1))
    block, copied = model.get_submodule("stack.blocks.0.feed_forward"), copy.deepcopy(model)
    assert copied.get_submodule("stack.blocks.0.feed_forward").activation is block.activation
    assert block.activation is catalog()["gelu_tanh"]


def test_an_equation_is_sent_to_another_process_by_its_name() -> None:
    for known in catalog().values():
        assert pickle.loads(pickle.dumps(known)) is known and copy.copy(known) is known

    @equation("x", meaning="m", symbols={"x": "x", "y": "y"})
    def only_here(x: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        return x

    with pytest.raises((pickle.PicklingError, AttributeError), match="only_here"):
        pickle.dumps(only_here)
    _CATALOG.pop("only_here")
