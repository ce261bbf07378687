"""Arguments of the position equations whose values matter."""

import torch

from tests.equations.drawing import Draw


def sinusoidal_positions(draw: Draw) -> dict:
    """Any length and even width, from any start."""
    base = draw.choose(10000.0, draw.number(1.5, 500.0))
    settings = {"base": base, "start": draw.integer(0, 50), "layout": draw.choose("adjacent", "halves")}
    return {"length": draw.integer(1, 33), "dim": 2 * draw.integer(1, 5), **settings}


def shift_matrix(draw: Draw) -> dict:
    """Shifts forward and backward."""
    return {"offset": draw.integer(-40, 40), "dim": 2 * draw.integer(1, 4), "base": draw.choose(10000.0, 100.0)}


def learned_positions(draw: Draw) -> dict:
    """A table that is long enough."""
    length, start = draw.integer(1, 4), draw.integer(0, 3)
    rows = length + start + draw.integer(0, 2)
    return {"P": draw.normal(rows, draw.integer(1, 4)), "length": length, "start": start}


def relative_positions(draw: Draw) -> dict:
    """Fewer queries than keys, as many, or more."""
    return {"queries": draw.integer(1, 6), "keys": draw.integer(1, 6)}


def alibi_slopes(draw: Draw) -> dict:
    """Powers of two and others."""
    return {"heads": draw.integer(1, 40)}


def alibi_bias(draw: Draw) -> dict:
    """Powers of two and others, with and without a cache."""
    return {"heads": draw.integer(1, 12), "queries": draw.integer(1, 6), "keys": draw.integer(1, 6)}


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
    """Tables with few and many buckets, with and without a cache."""
    buckets = draw.integer(4, 12)
    return {
        "table": draw.normal(buckets, draw.integer(1, 4)),
        "queries": draw.integer(1, 8),
        "keys": draw.integer(1, 8),
        "bidirectional": draw.choose(True, False),
        "max_distance": buckets + draw.integer(0, 20),
    }
