"""Arguments of the position equations whose values matter."""

import torch

from tests.equations.drawing import Draw


def sinusoidal_positions(draw: Draw) -> dict:
    """Positions in any order, and any even dimension."""
    base = draw.choose(10000.0, draw.number(1.5, 500.0))
    positions = draw.below(83, *draw.lead(), draw.integer(1, 33))
    settings = {"base": base, "layout": draw.choose("adjacent", "halves")}
    return {"positions": positions, "dim": 2 * draw.integer(1, 5), **settings}


def sinusoidal_positions_2d(draw: Draw) -> dict:
    """Rectangles of patches, and any dimension that four divides."""
    base = draw.choose(10000.0, draw.number(1.5, 500.0))
    return {"rows": draw.integer(1, 4), "columns": draw.integer(1, 4), "dim": 4 * draw.integer(1, 3), "base": base}


def shift_matrix(draw: Draw) -> dict:
    """Shifts forward and backward."""
    return {"offset": draw.integer(-40, 40), "dim": 2 * draw.integer(1, 4), "base": draw.choose(10000.0, 100.0)}


def alibi_slopes(draw: Draw) -> dict:
    """Powers of two and others."""
    return {"heads": draw.integer(1, 40)}


def alibi_bias(draw: Draw) -> dict:
    """Distances on both sides; powers of two and other numbers of heads."""
    r = draw.below(20, *draw.lead(), draw.integer(1, 6), draw.integer(1, 6)) - 10
    return {"r": r, "heads": draw.integer(1, 12)}


def relative_position_bucket(draw: Draw) -> dict:
    """Distances on both sides, within and beyond the largest."""
    bidirectional, buckets = draw.choose(True, False), draw.integer(4, 40)
    relative = draw.below(400, *draw.lead(), draw.integer(1, 8)) - 200
    return {
        "relative": relative.to(draw.choose(torch.int32, torch.int64)),
        "bidirectional": bidirectional,
        "buckets": buckets,
        "max_distance": buckets + draw.integer(0, 100),
    }


def relative_position_bias(draw: Draw) -> dict:
    """Tables with few and many buckets, distances near and far."""
    buckets = draw.integer(4, 12)
    return {
        "table": draw.normal(buckets, draw.integer(1, 4)),
        "r": draw.below(60, *draw.lead(), draw.integer(1, 8), draw.integer(1, 8)) - 30,
        "bidirectional": draw.choose(True, False),
        "max_distance": buckets + draw.integer(0, 20),
    }
