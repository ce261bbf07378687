"""Arguments of the rotary equations whose values matter."""

import torch
from torch import Tensor

from tests.equations.drawing import Draw


def rotary_frequencies(draw: Draw) -> dict:
    """Any even width."""
    return {"head_dim": 2 * draw.integer(1, 8), "base": draw.choose(10000.0, draw.number(1.5, 500.0))}


def rotary(draw: Draw) -> dict:
    """Both layouts, own and given frequencies, positions of one sequence or of each."""
    lead, seq, pairs = draw.lead(), draw.integer(1, 4), draw.integer(1, 3)
    cut = draw.integer(0, len(lead))
    own = draw.positive(pairs).to(torch.promote_types(draw.dtype, torch.float32))
    return {
        "x": draw.normal(*lead, seq, 2 * pairs),
        "positions": draw.below(50, *(draw.choose(1, n) for n in lead[cut:]), seq) - 10,
        "base": draw.choose(10000.0, 100.0),
        "frequencies": draw.choose(None, own),
        "layout": draw.choose("adjacent", "halves"),
    }


def _frequencies(draw: Draw) -> Tensor:
    return draw.positive(draw.integer(1, 8))


def linear_scaled_frequencies(draw: Draw) -> dict:
    """Longer contexts and shorter ones."""
    return {"frequencies": _frequencies(draw), "factor": draw.number(0.5, 16)}


def base_scaled_frequencies(draw: Draw) -> dict:
    """Larger and smaller bases."""
    return {"head_dim": 2 * draw.integer(1, 8), "base": draw.number(100, 1e5), "alpha": draw.number(0.5, 16)}


def ntk_scaled_frequencies(draw: Draw) -> dict:
    """More than one pair."""
    return {"head_dim": 2 * draw.integer(2, 8), "base": draw.number(100, 1e5), "factor": draw.number(1, 16)}


def yarn_scaled_frequencies(draw: Draw) -> dict:
    """Ramps of every place and steepness."""
    return {
        "frequencies": _frequencies(draw),
        "base": draw.choose(10000.0, 50.0),
        "factor": draw.number(1, 16),
        "original_length": draw.integer(16, 8192),
        "fast": draw.number(4, 40),
        "slow": draw.number(0.5, 3),
        "truncate": draw.choose(True, False),
    }


def yarn_temperature(draw: Draw) -> dict:
    """Longer contexts and shorter ones."""
    return {"factor": draw.number(0.5, 64)}


def llama3_scaled_frequencies(draw: Draw) -> dict:
    """Pairs below, on and above the ramp."""
    return {
        "frequencies": _frequencies(draw),
        "factor": draw.number(1, 16),
        "low_factor": draw.number(0.5, 2),
        "high_factor": draw.number(2.5, 8),
        "original_length": draw.integer(8, 64),
    }
