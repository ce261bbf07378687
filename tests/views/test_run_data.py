"""A run as data for pages: labels of axes, the first bad step, windows of matrices, cells with links, paths."""

import math
import random
import struct

import msgspec
import pytest
import torch
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.equations.losses import mean_squared_error
from glassformer.errors import TapeError
from glassformer.probes.trace import Trace, trace
from glassformer.views.cell_data import CellData, cell, path
from glassformer.views.mathml import mathml
from glassformer.views.run_data import MatrixPart, RunData, TensorName, run_data, slice_of
from tests.models.zoo import specimen

MODELS = ["gpt", "llama-grouped", "encoder", "seq2seq", "t5", "lstm", "modern-alibi", "vit"]


def squared(output: Tensor, _: object) -> Tensor:
    return mean_squared_error(output, torch.zeros_like(output))


def traced(name: str, backward: bool = False) -> Trace:
    case = specimen(name, torch.float32)
    found = trace(case.model, {key: value[:1] for key, value in case.inputs.items()}, squared if backward else None)
    words = {
        key: [f"{key}{i}" for i in range(value.shape[1])] for key, value in case.inputs.items() if value.dim() == 2
    }
    return found.labeled(**words)


def labels(data: RunData, name: str) -> list[str | None]:
    return next(step.labels for step in data.steps if step.name == name)


def test_tokens_stand_on_the_axes_that_their_numbers_came_by() -> None:
    data = run_data(traced("seq2seq"))
    assert labels(data, "encoder.layers.0.attention.weights") == [None, None, "source", "source"]
    assert labels(data, "decoder.layers.1.attention.causal_mask") == ["target", "target"]
    assert labels(data, "decoder.layers.1.cross_attention.keys") == [None, None, "source", None]
    assert labels(data, "decoder.layers.1.cross_attention.weights") == [None, None, "target", "source"]
    assert labels(data, "unembed") == [None, "target", None]
    gpt = run_data(traced("gpt"))
    assert labels(gpt, "layers.0.attention.key") == [None, "ids", None], "cut out of the three projections"


def test_labels_do_not_mistake_texts_of_equal_length() -> None:
    case = specimen("seq2seq", torch.float32)
    ids = case.inputs["source"][:1]
    found = trace(case.model, {"source": ids, "target": ids.clone()}).labeled(source=["a"] * 7, target=["b"] * 7)
    assert labels(run_data(found), "decoder.layers.0.cross_attention.weights") == [None, None, "target", "source"]


@pytest.mark.parametrize("name", MODELS)
def test_steps_are_in_order_with_their_parents_sources_and_products(name: str) -> None:
    found = traced(name)
    data = run_data(found, {"linear": "weights"})
    assert [step.name for step in data.steps] == [step.name for step in found.steps]
    assert data.kind == {"encoder": "encoder", "vit": "image", "seq2seq": "seq2seq", "t5": "seq2seq"}.get(
        name, "causal"
    )
    for step in data.steps:
        assert step.parent is None or data.steps[step.parent].depth == step.depth - 1
        for bound in step.symbols:
            assert not bound.step or bound.source in {each.name for each in data.steps}
    linear = data.equations["linear"]
    assert (linear.lesson, linear.file) == ("weights", "glassformer/equations/algebra.py")
    assert linear.product is not None and (linear.product.left, linear.product.right) == ("x", "W")
    again = msgspec.json.decode(msgspec.json.encode(data), type=RunData)
    assert again == data


def test_the_first_bad_step_is_named_and_a_mask_is_not_bad() -> None:
    case = specimen("gpt", torch.float32)
    ids = case.inputs["ids"][:1]
    data = run_data(trace(case.model, ids))
    assert data.bad is None
    masked = next(step for step in data.steps if step.name == "layers.0.attention.apply_mask")
    assert (masked.nan, masked.infinite) == (0, 2 * 21)
    with torch.no_grad():
        case.model.get_parameter("stack.blocks.1.feed_forward.up.weight")[0, 0] = torch.nan
    bad = run_data(trace(case.model, ids)).bad
    assert bad is not None and (bad.step, bad.nan, bad.infinite) == ("layers.1.feed_forward.up", 7, 0)


def test_a_window_is_the_part_of_the_matrix_asked_for() -> None:
    found = traced("gpt", backward=True)
    value = found["layers.0.attention.scores"].output
    part = slice_of(found, TensorName("layers.0.attention.scores"), (0, 1), MatrixPart(2, 3, 2, 4))
    assert struct.unpack("<8f", part) == tuple(value[0, 1, 2:4, 3:7].flatten().tolist())
    keys = slice_of(found, TensorName("layers.0.attention.scores", "k"), (0, 1), MatrixPart(0, 0, 7, 4))
    assert struct.unpack("<28f", keys) == tuple(found["layers.0.attention.keys"].output[0, 1].flatten().tolist())
    back = slice_of(found, TensorName("layers.0.attention.scores", "s", "backward"), (0, 1), MatrixPart(0, 0, 1, 7))
    assert struct.unpack("<7f", back) == tuple(found["layers.0.attention.scores"].gradient[0, 1, 0].tolist())
    with pytest.raises(TapeError, match=r"wanted 2 indices"):
        slice_of(found, TensorName("layers.0.attention.scores"), (0,), MatrixPart(0, 0, 1, 1))
    with pytest.raises(TapeError, match=r"has no w; it has q, k, scale, s"):
        slice_of(found, TensorName("layers.0.attention.scores", "w"), (), MatrixPart(0, 0, 1, 1))


def linked(found: CellData) -> list[tuple[str, str, tuple[int, ...]]]:
    """Each linked number of the text, with the letter and the index it leads to."""
    return [
        (found.text[link.start : link.end], found.operands[link.operand].symbol, found.operands[link.operand].index)
        for link in found.links
    ]


def test_each_number_of_a_score_leads_to_its_operand() -> None:
    found = traced("gpt")
    scores = found["layers.0.attention.scores"].step
    one = cell(found, TensorName("layers.0.attention.scores"), (0, 1, 3, 2))
    q, k = scores.inputs["q"][0, 1, 3].tolist(), scores.inputs["k"][0, 1, 2].tolist()
    wanted = []
    for d, (a, b) in enumerate(zip(q, k, strict=True)):
        wanted += [(number(abs(a)), "q", (0, 1, 3, d)), (number(abs(b)), "k", (0, 1, 2, d))]
    assert linked(one) == wanted
    assert one.more == 0 and len(one.operands) == 8
    assert {o.source for o in one.operands} == {"layers.0.attention.queries", "layers.0.attention.keys"}


def test_equal_numbers_lead_to_the_right_operands() -> None:
    found = traced("gpt")
    step = found["layers.0.attention.scores"].step
    with torch.no_grad():
        step.inputs["q"].fill_(0.5)
        step.inputs["k"].fill_(0.5)
        step.output.fill_(0.5)
    one = cell(found, TensorName("layers.0.attention.scores"), (0, 0, 1, 2))
    assert [(symbol, at[-1]) for _, symbol, at in linked(one)] == [(s, d) for d in range(4) for s in ("q", "k")]


@pytest.mark.parametrize("name", MODELS)
def test_links_show_the_values_they_lead_to(name: str) -> None:
    found, chance, count = traced(name), random.Random(name), 0
    for step in found.steps:
        if not isinstance(step.output, Tensor):
            continue
        one = cell(found, TensorName(step.name), tuple(chance.randrange(size) for size in step.shape))
        assert one.text == found.cell(step.name, *one.index)
        assert mathml(one.latex)
        for link in one.links:
            shown, value = one.text[link.start : link.end], abs(float(one.operands[link.operand].value))
            told = math.inf if shown == "∞" else float(shown)
            assert told == value or told == pytest.approx(value, rel=1e-3), one.text
        count += len(one.links)
    assert count > 30


@pytest.mark.parametrize("name", ["gpt", "llama-grouped", "encoder", "seq2seq"])
def test_a_gradient_names_who_sent_it(name: str) -> None:
    found, chance = traced(name, backward=True), random.Random(name)
    for step in found.steps:
        if step.gradient is None or step.equation is mean_squared_error:
            continue
        one = cell(found, TensorName(step.name, "", "backward"), tuple(chance.randrange(n) for n in step.shape))
        assert one.value == float(step.gradient[one.index])
        assert sum(float(each.value) for each in one.sent) == pytest.approx(one.value, rel=1e-4, abs=1e-7)
        for each in one.sent:
            assert f"(from {each.step})" in one.text
        sizes = [abs(operand.share) for operand in one.operands]
        assert sizes == sorted(sizes, reverse=True)


def test_a_gradient_is_refused_where_there_is_none() -> None:
    found = traced("gpt")
    with pytest.raises(TapeError, match="the run did not go backward from a loss"):
        cell(found, TensorName("unembed", "", "backward"), (0, 0, 0))


def test_a_path_has_shares_and_ends_at_weights() -> None:
    found = traced("llama-grouped")
    tree = path(found, "output", (0, 3, 2), 60, 1)
    count = 0
    while True:
        sizes = [abs(part.share) for part in tree.parts]
        assert sizes == sorted(sizes, reverse=True)
        followed = [part for part in tree.parts if part.made and not part.fixed]
        if not followed:
            break
        tree, count = followed[0], count + 1
    assert tree.step == "embedding" and [part.step for part in tree.parts] == ["embedding.weight"]
    assert 10 < count <= 40
