"""Arguments of the equations over places whose values matter."""

import torch

from tests.equations.drawing import Draw


def relative_places(draw: Draw) -> dict:
    """Places anywhere, some of them empty, one row for all sequences or one for each."""
    lead = draw.lead()
    p = draw.below(20, *lead, draw.integer(1, 4)) - 3
    return {"p": p, "j": draw.below(20, *draw.choose(lead, ()), draw.integer(1, 4)) - 3}


def place_mask(draw: Draw) -> dict:
    """Every pattern over the distances of drawn places."""
    places = relative_places(draw)
    r = places["j"][..., None, :] - places["p"][..., :, None]
    pattern = draw.choose(
        {},
        {"window": draw.integer(1, 5)},
        {"window": draw.integer(1, 5), "dilation": draw.integer(1, 3)},
        {"block": draw.integer(1, 5)},
    )
    return {"r": r, "j": places["j"], **pattern}


def sinusoidal_at(draw: Draw) -> dict:
    """Any places and an even width."""
    layout = draw.choose("adjacent", "halves")
    places = draw.below(50, *draw.lead(), draw.integer(1, 5))
    return {"places": places, "dim": 2 * draw.integer(1, 5), "base": draw.choose(10000.0, 50.0), "layout": layout}


def alibi_at(draw: Draw) -> dict:
    """Distances on both sides."""
    r = draw.below(20, *draw.lead(), draw.integer(1, 3), draw.integer(1, 3)) - 10
    return {"r": r, "heads": draw.integer(1, 12)}


def relative_bias_at(draw: Draw) -> dict:
    """Tables with few and many buckets, distances near and far."""
    buckets = draw.integer(4, 12)
    return {
        "table": draw.normal(buckets, draw.integer(1, 4)),
        "r": draw.below(60, *draw.lead(), draw.integer(1, 3), draw.integer(1, 3)) - 30,
        "bidirectional": draw.choose(True, False),
        "max_distance": buckets + draw.integer(0, 20),
    }


def write_rows(draw: Draw) -> dict:
    """Slots in any order, each once."""
    lead, slots, dim = draw.lead(), draw.integer(1, 5), draw.integer(1, 3)
    new = draw.integer(1, slots)
    at = torch.randperm(slots, generator=draw.generator)[:new]
    return {"memory": draw.normal(*lead, slots, dim), "rows": draw.normal(*lead, new, dim), "at": at}
