"""Thumbnails of attention: which maps there are, what they are, and the largest weights of each part."""

import base64

import numpy as np
import pytest
import torch
from torch.nn import functional

from glassformer.probes.interventions import head_attribution
from glassformer.probes.readout import attention_maps
from glassformer.probes.trace import trace
from glassformer.views.attention_sheet import SIDE, AttentionSheet, attention_sheet, maps_sheet
from tests.models.zoo import specimen


def thumbnails(sheet: AttentionSheet) -> list[torch.Tensor]:
    """The thumbnails [heads, rows, columns] of each map."""
    numbers = torch.tensor(np.frombuffer(base64.b64decode(sheet.thumbnails), "<f4").copy())
    shapes = [(each.heads, *each.thumbnail) for each in sheet.maps]
    parts = numbers.split([int(np.prod(shape)) for shape in shapes])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def test_every_map_of_a_translator_is_there_with_its_kind_and_its_weights() -> None:
    case = specimen("seq2seq")
    found = trace(case.model, {name: value[:1] for name, value in case.inputs.items()})
    sheet = attention_sheet(found)
    assert [(each.stack, each.layer, each.kind) for each in sheet.maps] == [
        ("encoder", 0, "self"), ("encoder", 1, "self"),
        ("decoder", 0, "causal"), ("decoder", 0, "cross"), ("decoder", 1, "causal"), ("decoder", 1, "cross"),
    ]  # fmt: skip
    for each, small in zip(sheet.maps, thumbnails(sheet), strict=True):
        weights = found[each.step].value[0]
        assert each.shape == weights.shape[1:] and each.attribution is None
        assert torch.equal(small, weights.float()), "a small map is its own thumbnail"


def test_a_long_map_keeps_the_largest_weight_of_each_part() -> None:
    weights = torch.rand(1, 3, 70, 96).softmax(-1)
    (small,) = thumbnails(maps_sheet({"layers.0.attention": weights}))
    assert small.shape == (3, SIDE, SIDE)
    assert torch.equal(small, functional.adaptive_max_pool2d(weights[0], SIDE))
    assert small.max() == weights.max()


def test_attribution_is_that_of_the_probe() -> None:
    case = specimen("llama")
    found = trace(case.model, {name: value[:1] for name, value in case.inputs.items()}, "next")
    for each, rises in zip(attention_sheet(found).maps, head_attribution(found).values(), strict=True):
        assert each.attribution == pytest.approx(rises.tolist())


@pytest.mark.parametrize("name", ["modern-dilated", "modern-blocks", "vit", "clip"])
def test_other_attention_has_thumbnails_too(name: str) -> None:
    case = specimen(name)
    inputs = {key: value[:1] for key, value in case.inputs.items()}
    assert [each.heads for each in attention_sheet(trace(case.model, inputs)).maps] == [
        weights.shape[1] for weights in attention_maps(case.model, inputs).values()
    ]
