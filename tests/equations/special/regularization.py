"""Arguments of dropout: a rate, and a source of random numbers of their own."""

import torch

from tests.equations.drawing import Draw


def dropout_mask(draw: Draw) -> dict[str, object]:
    """Numbers, a rate, a generator."""
    generator = torch.Generator().manual_seed(draw.integer(0, 1000))
    return {"x": draw.normal(*draw.lead(), 5), "rate": draw.choose(0.0, 0.1, 0.5, 0.9), "generator": generator}


def apply_dropout(draw: Draw) -> dict[str, object]:
    """Numbers, a mask of zeros and ones, a rate."""
    x = draw.normal(*draw.lead(), 5)
    return {"x": x, "m": draw.flags(*x.shape).to(draw.dtype), "rate": draw.choose(0.0, 0.1, 0.5, 0.9)}


def dropout(draw: Draw) -> dict[str, object]:
    """Numbers, a rate, a generator."""
    return dropout_mask(draw)
