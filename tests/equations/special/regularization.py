"""Arguments of dropout: a probability and a random generator."""

import torch

from tests.equations.drawing import Draw


def dropout_mask(draw: Draw) -> dict[str, object]:
    """Numbers, a probability, a generator."""
    generator = torch.Generator().manual_seed(draw.integer(0, 1000))
    return {"x": draw.normal(*draw.lead(), 5), "p": draw.choose(0.0, 0.1, 0.5, 0.9), "generator": generator}


def apply_dropout(draw: Draw) -> dict[str, object]:
    """Numbers, a mask of zeros and ones, a probability."""
    x = draw.normal(*draw.lead(), 5)
    return {"x": x, "m": draw.flags(*x.shape).to(draw.dtype), "p": draw.choose(0.0, 0.1, 0.5, 0.9)}


def dropout(draw: Draw) -> dict[str, object]:
    """Numbers, a probability, a generator."""
    return dropout_mask(draw)
