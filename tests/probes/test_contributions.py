"""Operands of a number: shares against autograd, rows and columns of products, and gradients by who sent them."""

import random
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import glassformer.equations as eq
from glassformer.equation import no_checks, reference_mode, tensors_in
from glassformer.probes.contributions import Operands, maker, operands, sent_back
from glassformer.probes.narrowing import Product, product_of
from glassformer.probes.trace import Trace, TraceStep, trace
from glassformer.recording import Tape
from glassformer.steps import Step
from tests.models.zoo import specimen
from tests.probes.intervals import Interval, work_out

MODELS = ["gpt", "llama-grouped", "encoder", "seq2seq", "t5", "lstm", "modern-alibi", "vit"]


def traced(name: str, backward: bool = False) -> Trace:
    case = specimen(name)
    inputs = {key: value[:2] for key, value in case.inputs.items()}
    return trace(case.model, inputs, squared if backward else None)


def squared(output: Tensor, _: object) -> Tensor:
    return eq.mean_squared_error(output, torch.zeros_like(output))


def float_steps(found: Trace) -> list[TraceStep]:
    return [s for s in found.steps if isinstance(s.output, Tensor) and s.output.is_floating_point() and s.shape]


def by_autograd(step: Step, index: tuple[int, ...]) -> dict[tuple[str, int], Tensor]:
    """Gradient times value for every entry of every input, by differentiating the whole equation."""
    inner = maker(step)
    leaves: dict[tuple[str, int], Tensor] = {}

    def leaf(name: str, value: object, position: int = 0) -> object:
        if isinstance(value, (list, tuple)):
            return type(value)(leaf(name, item, at) for at, item in enumerate(value))
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        leaves[name, position] = value.detach().clone().requires_grad_()
        return leaves[name, position]

    inputs = {name: leaf(name, value) for name, value in inner.inputs.items()}
    with reference_mode(), no_checks(), torch.enable_grad():
        output = tensors_in(inner.equation.fn(**inputs))[0]
        if not leaves or not output.requires_grad:
            return {}
        found = torch.autograd.grad(output[index], list(leaves.values()), allow_unused=True)
    return {
        key: torch.zeros_like(leaf) if gradient is None else (gradient * leaf).detach().nan_to_num(0, 0, 0)
        for (key, leaf), gradient in zip(leaves.items(), found, strict=True)
    }


def dense(found: Operands, wanted: dict[tuple[str, int], Tensor], step: Step) -> dict[tuple[str, int], Tensor]:
    """The shares found, as tensors of the inputs' shapes."""
    inner = maker(step)
    positions = {(name, at): t for name, value in inner.inputs.items() for at, t in enumerate(tensors_in(value))}
    fractions = {key: torch.zeros_like(wanted[key]) for key in wanted}
    for operand in map(found.__getitem__, range(len(found))):
        key = next(key for key, tensor in positions.items() if tensor is operand.tensor and key[0] == operand.symbol)
        assert fractions[key][operand.index] == 0, "each entry once"
        fractions[key][operand.index] = operand.share
        assert operand.value == float(operand.tensor.detach()[operand.index])
    return fractions


@pytest.mark.parametrize("name", MODELS)
def test_shares_are_those_of_autograd(name: str) -> None:
    found, chance, compared = traced(name), random.Random(name), 0
    for step in float_steps(found):
        index = tuple(chance.randrange(size) for size in step.shape)
        products = by_autograd(step.step, index)
        whole = sum(float(each.abs().sum()) for each in products.values())
        if whole < 1e-12:
            continue
        fractions = dense(operands(step.step, index), products, step.step)
        for key, each in products.items():
            torch.testing.assert_close(
                fractions[key], each / whole, msg=f"{step.name}{index}: {key}", rtol=1e-6, atol=1e-9
            )
        compared += 1
    assert compared > 12


@pytest.mark.parametrize("name", MODELS)
def test_shares_sum_to_one_and_the_largest_come_first(name: str) -> None:
    chance = random.Random(name)
    for step in float_steps(traced(name)):
        found = operands(step.step, tuple(chance.randrange(size) for size in step.shape))
        if not len(found):
            assert not any(t.is_floating_point() for t in maker(step.step).input_tensors), step.name
            continue
        assert float(found.fractions.abs().sum()) == pytest.approx(1), step.name
        sizes = [abs(found[at].share) for at in found.largest(5)]
        assert sizes == sorted(sizes, reverse=True) and sizes[0] == float(found.fractions.abs().max())


@pytest.mark.parametrize("name", ["gpt", "llama-grouped", "encoder", "seq2seq"])
@given(chance=st.randoms(use_true_random=False))
def test_a_score_has_exactly_a_row_of_queries_and_of_keys(name: str, chance: random.Random) -> None:
    layer = "encoder.layers.0" if name == "seq2seq" else "layers.1"
    step = TRACES.setdefault(name, traced(name))[f"{layer}.attention.scores"]
    batch, head, i, j = (chance.randrange(size) for size in step.shape)
    found = operands(step.step, (batch, head, i, j))
    indices = {each.symbol: each.indices.tolist() for each in found.sets}
    width = step.step.inputs["q"].shape[-1]
    assert indices == {
        "q": [[batch, head, i, d] for d in range(width)],
        "k": [[batch, head, j, d] for d in range(width)],
    }
    assert [each.box for each in found.sets] == [
        ((batch, head, i, 0), (batch, head, i, width - 1)),
        ((batch, head, j, 0), (batch, head, j, width - 1)),
    ]


TRACES: dict[str, Trace] = {}


def test_products_are_told_by_their_shapes() -> None:
    assert product_of(eq.attention_scores) == Product("q", "k", True)
    assert product_of(eq.linear) == Product("x", "W", False)
    assert product_of(eq.weighted_sum) == Product("a", "v", False)
    assert product_of(eq.unembed) == Product("h", "E", True)
    assert product_of(eq.matmul) == Product("A", "B", False)
    for other in (eq.softmax, eq.attention, eq.layer_norm, eq.add, eq.lora, eq.embed, eq.cross_entropy):
        assert product_of(other) is None, other.name


def recorded(equation: object, *args: object) -> Step:
    with Tape() as tape:
        equation(*args)
    return tape.steps[-1]


def test_an_entry_of_zero_still_counts() -> None:
    q, k = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]])
    found = operands(recorded(eq.attention_scores, q, k), (0, 0))
    assert [(found[i].symbol, found[i].index) for i in range(4)] == [
        ("q", (0, 0)), ("q", (0, 1)), ("k", (0, 0)), ("k", (0, 1)),
    ]  # fmt: skip


def test_a_number_that_a_relu_cut_off_has_its_operand() -> None:
    found = operands(recorded(eq.relu, torch.tensor([3.0, -1.0])), (1,))
    assert [(found[0].index, found[0].value, found[0].share)] == [((1,), -1.0, 1.0)] and len(found) == 1


def test_a_weight_of_one_leads_to_its_own_score() -> None:
    found = operands(recorded(eq.softmax, torch.tensor([2.0, -torch.inf, -torch.inf])), (0,))
    assert len(found) == 3
    assert found[found.largest(1)[0]].index == (0,)


def test_a_bad_number_leads_to_the_bad_entry() -> None:
    x, w = torch.ones(1, 3), torch.ones(3, 2)
    w[1, 0] = torch.nan
    found = operands(recorded(eq.linear, x, w), (0, 0))
    first = found[found.largest(1)[0]]
    assert (first.symbol, first.index, first.share) == ("W", (1, 0), 1.0)


def test_a_copy_has_one_source() -> None:
    found = traced("gpt")
    for name in ("layers.0.attention.queries", "layers.0.attention.merge_heads", "layers.0.attention.key", "embedding"):
        step = found[name]
        index = tuple(size - 1 for size in step.shape)
        copied = operands(step.step, index)
        assert len(copied) == 1 and copied[0].value == float(step.output.detach()[index])
        assert abs(copied[0].share) == 1


@pytest.mark.parametrize("name", MODELS)
def test_what_consumers_send_back_sums_to_the_gradient(name: str) -> None:
    found, chance, several, count = traced(name, backward=True), random.Random(name), 0, 0
    assert found.gradients is not None
    for step in float_steps(found):
        if step.gradient is None or step.name in ("mean_squared_error", found.steps[-1].name):
            continue
        index = tuple(chance.randrange(size) for size in step.shape)
        sent = sent_back(found.tape.steps, found.gradients, step.step.output, index)
        value = float(step.gradient[index])
        assert sum(each.value for each in sent) == pytest.approx(value, rel=1e-6, abs=1e-12), f"{step.name}{index}"
        several += len(sent) > 1
        count += 1
        assert sum(float(each.operands.fractions.abs().sum()) for each in sent) == pytest.approx(
            1 if value else 0, abs=1
        )
        for each in sent:
            reach, room = work_out(each.text), 1e-6 * max(1.0, abs(each.value))
            assert each.value in Interval(reach.low - room, reach.high + room), f"{step.name}{index}: {each.text}"
            for operand in map(each.operands.__getitem__, range(len(each.operands))):
                assert operand.value == float(found.gradients[operand.tensor][operand.index])
    assert count > 10 and several > 0


def test_a_residual_stream_is_sent_gradients_by_each_reader() -> None:
    found = traced("gpt", backward=True)
    assert found.gradients is not None
    step = found["layers.0.attention_residual"]
    sent = sent_back(found.tape.steps, found.gradients, step.step.output, (0, 3, 2))
    assert [found.names[each.step.path] for each in sent] == [
        "layers.0.feed_forward_norm", "layers.0.feed_forward_residual",
    ]  # fmt: skip
    assert [each.symbol for each in sent] == ["x", "h"]
    assert re.fullmatch(r"[−\d.e-]+", sent[1].text), "a copy is one number"
