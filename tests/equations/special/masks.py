"""Arguments of the mask equations whose values matter."""

import math

import torch

from tests.equations.drawing import Draw


def _sizes(draw: Draw) -> dict:
    return {
        "queries": draw.integer(1, 9),
        "keys": draw.integer(1, 9),
        "blocked": draw.choose(-math.inf, -1e4),
        "dtype": draw.dtype,
    }


def relative_positions(draw: Draw) -> dict:
    """Positions anywhere, some of them empty, shared by all sequences or one set for each."""
    lead = draw.lead()
    p = draw.below(20, *lead, draw.integer(1, 4)) - 3
    return {"p": p, "j": draw.below(20, *draw.choose(lead, ()), draw.integer(1, 4)) - 3}


def position_mask(draw: Draw) -> dict:
    """Every pattern over the distances of drawn positions."""
    drawn = relative_positions(draw)
    r = drawn["j"][..., None, :] - drawn["p"][..., :, None]
    pattern = draw.choose(
        {},
        {"window": draw.integer(1, 5)},
        {"window": draw.integer(1, 5), "dilation": draw.integer(1, 3)},
        {"block": draw.integer(1, 5)},
    )
    return {"r": r, "j": drawn["j"], **pattern}


def causal_mask(draw: Draw) -> dict:
    """Fewer queries than keys, as many, or more."""
    return _sizes(draw) | draw.choose({}, {"keys": None})


def sliding_window_mask(draw: Draw) -> dict:
    """Windows behind and on both sides."""
    return _sizes(draw) | {"window": draw.integer(1, 10), "causal": draw.choose(True, False)}


def dilated_mask(draw: Draw) -> dict:
    """Windows and gaps of every size."""
    return _sizes(draw) | {"window": draw.integer(1, 5), "dilation": draw.integer(1, 4)}


def block_sparse_mask(draw: Draw) -> dict:
    """Blocks from one position to more than there are."""
    return _sizes(draw) | {"block": draw.integer(1, 10)}


def visible_pairs(draw: Draw) -> dict:
    """A real mask."""
    shape = (*draw.lead(), draw.integer(1, 4))
    return {"M": torch.where(draw.flags(*shape), 0.0, -math.inf).to(draw.dtype)}
