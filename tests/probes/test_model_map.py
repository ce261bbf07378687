"""The map of a model: every step in one box, boxes in their layers, sizes that agree with the probes."""

import pytest
import torch

from glassformer.probes.interventions import head_attribution, layer_attribution
from glassformer.probes.model_map import Box, ModelMap, model_map
from glassformer.probes.readout import gradient_norms, stream_norms
from glassformer.probes.trace import Trace, trace
from tests.models.zoo import ZOO, specimen


def mapped(name: str, backward: str | None = None) -> tuple[Trace, ModelMap]:
    case = specimen(name, torch.float32)
    found = trace(case.model, case.inputs, backward)
    return found, model_map(found)


def boxes(found: ModelMap) -> list[Box]:
    return [
        box
        for stack in found.stacks
        for box in (*stack.before, *(box for layer in stack.layers for box in layer.boxes), *stack.after)
    ]


@pytest.mark.parametrize("name", ZOO)
def test_every_step_is_in_one_box_and_every_box_reads_boxes(name: str) -> None:
    run, found = mapped(name)
    every = boxes(found)
    assert sorted(step for box in every for step in box.steps) == sorted(run.names[s.path] for s in run.tape.steps)
    names = {box.name for box in every}
    assert len(names) == len(every) and all(read.box in names for box in every for read in box.reads)
    assert found.operations == sum(run[step].cost.flops for box in every for step in box.steps)
    assert found.parameters == sum(p.numel() for p in run.model.parameters())


def test_a_decoder_is_one_stack_of_sublayers() -> None:
    run, found = mapped("gpt", "next")
    (stack,) = found.stacks
    assert [box.title for box in stack.before] == ["embedding", "positions"]
    assert [box.title for box in stack.after] == ["norm", "unembed", "cross entropy"]
    kinds = ["norm", "attention", "residual", "norm", "feed_forward", "residual"]
    assert [[box.kind for box in layer.boxes] for layer in stack.layers] == [kinds, kinds]
    stream = [stack.before[-1], *(layer.boxes[-1] for layer in stack.layers)]
    assert [box.norm for box in stream] == pytest.approx(stream_norms(run).tolist())
    assert [box.gradient for box in stream] == pytest.approx(gradient_norms(run).tolist())
    assert all(box.on_stream for box in stream) and not stack.layers[0].boxes[0].on_stream


def test_heads_and_sublayers_have_their_attributions() -> None:
    run, found = mapped("gpt", "next")
    named = {box.name: box for box in boxes(found)}
    for name, rises in head_attribution(run).items():
        heads = named[name.removesuffix(".outputs")].heads
        assert [head.attribution for head in heads] == pytest.approx(rises.tolist())
    for name, rise in layer_attribution(run).items():
        assert named[name.rpartition(".")[0]].attribution == pytest.approx(float(rise))
    _, forward = mapped("gpt")
    assert not forward.backward and all(box.gradient is None for box in boxes(forward))
    assert all(head.attribution is None and head.norm > 0 for box in boxes(forward) for head in box.heads)


@pytest.mark.parametrize("name", ["seq2seq", "seq2seq-pre", "t5"])
def test_an_encoder_decoder_has_two_stacks_joined_by_cross_attention(name: str) -> None:
    _, found = mapped(name)
    encoder, decoder = found.stacks
    assert (encoder.name, decoder.name) == ("encoder", "decoder")
    inside = {box.name for box in (*encoder.after, *(box for layer in encoder.layers for box in layer.boxes))}
    for layer in decoder.layers:
        (cross,) = [box for box in layer.boxes if box.kind == "cross_attention"]
        assert {read.box for read in cross.reads} & inside
        assert [read.shape for read in cross.reads if read.box in inside] == [(3, 7, 8)]
    assert not any(box.kind == "cross_attention" for layer in encoder.layers for box in layer.boxes)
    assert decoder.after[-1].shape == (3, 5, 13)


def test_after_a_sublayer_the_stream_goes_through_its_norm() -> None:
    _, found = mapped("encoder-masked")
    norms = [box for layer in found.stacks[0].layers for box in layer.boxes if box.kind == "norm"]
    assert len(norms) == 4 and all(box.on_stream for box in norms)
