"""Arguments of the quantization equations: levels, and codes that have them."""

import torch

from tests.equations.drawing import Draw


def _levels(draw: Draw) -> list[int]:
    return [draw.integer(2, 5) for _ in range(draw.integer(1, 3))]


def _codes(draw: Draw, levels: list[int]) -> torch.Tensor:
    shape = (*draw.lead(), draw.integer(1, 4))
    return torch.stack([draw.below(level, *shape) for level in levels], -1).to(draw.dtype)


def bound_to_levels(draw: Draw) -> dict:
    levels = _levels(draw)
    return {"z": draw.normal(*draw.lead(), len(levels)), "levels": levels}


def normalize_levels(draw: Draw) -> dict:
    levels = _levels(draw)
    return {"q": _codes(draw, levels), "levels": levels}


def code_ids(draw: Draw) -> dict:
    return normalize_levels(draw)


def code_levels(draw: Draw) -> dict:
    """Ids below the number of codes."""
    levels = _levels(draw)
    ids = draw.below(int(torch.tensor(levels).prod()), *draw.lead(), draw.integer(1, 4))
    return {"ids": ids, "levels": levels, "dtype": draw.dtype}


def peak_signal_to_noise(draw: Draw) -> dict:
    """A picture and one apart from it."""
    x = draw.normal(draw.integer(1, 6))
    return {"x_hat": x + draw.positive(*x.shape), "x": x, "peak": draw.choose(1.0, 255.0)}
