"""Arguments of the linears with coarse weights: whole numbers within their bits."""

import torch

from tests.equations.drawing import Draw


def int8_linear(draw: Draw) -> dict:
    inputs, outputs = draw.integer(1, 5), draw.integer(1, 4)
    W = (draw.below(255, outputs, inputs) - 127).to(torch.int8)
    b = draw.choose(None, draw.normal(outputs))
    return {"x": draw.normal(*draw.lead(), inputs), "W": W, "s": draw.positive(outputs) / 100, "b": b}


def int4_linear(draw: Draw) -> dict:
    groups, size, outputs = draw.integer(1, 3), 2 * draw.integer(1, 2), draw.integer(1, 4)
    inputs = groups * size
    W = (draw.below(256, outputs, inputs // 2) - 128).to(torch.int8)
    b = draw.choose(None, draw.normal(outputs))
    return {"x": draw.normal(*draw.lead(), inputs), "W": W, "s": draw.positive(outputs, groups) / 10, "b": b}
