"""Arguments of the equations on packed rows: documents of every length, empty ones among them."""

import torch
from torch import Tensor

from tests.equations.drawing import Draw


def _bounds(draw: Draw, rows: int, documents: int, tokens: int) -> Tensor:
    """Bounds of as many documents in each row."""
    inner = draw.below(tokens + 1, rows, documents - 1).sort(-1).values
    ends = (torch.zeros(rows, 1, dtype=torch.long), inner, torch.full((rows, 1), tokens))
    return torch.cat(ends, -1).to(draw.choose(torch.int32, torch.int64))


def document_positions(draw: Draw) -> dict:
    tokens = draw.integer(1, 9)
    return {"c": _bounds(draw, draw.integer(1, 3), draw.integer(1, 4), tokens), "tokens": tokens}


def document_mask(draw: Draw) -> dict:
    rows, documents, queries, keys = (draw.integer(1, most) for most in (3, 4, 6, 6))
    bounds = {name: _bounds(draw, rows, documents, count) for name, count in (("c", queries), ("e", keys))}
    causal = draw.choose(False, True)
    return {**bounds, "queries": queries, "keys": keys, "causal": causal, "dtype": draw.dtype}


def packed_attention(draw: Draw) -> dict:
    drawn, d = document_mask(draw), draw.integer(1, 4)
    rows, queries, keys = len(drawn["c"]), drawn["queries"], drawn["keys"]
    groups, shared = draw.integer(1, 2), draw.integer(1, 2)
    return {
        "q": draw.normal(rows, groups * shared, queries, d),
        "k": draw.normal(rows, groups, keys, d),
        "v": draw.normal(rows, groups, keys, draw.integer(1, 4)),
        "c": drawn["c"],
        "e": drawn["e"],
        "longest": draw.choose(None, max(queries, keys)),
        "causal": drawn["causal"],
        "scale": draw.choose(None, 0.7),
    }
