"""Arguments of the attention equations: grouped heads, masks that may hide every key, odd sizes."""

import torch
from torch import Tensor

from tests.equations.drawing import Draw


def _mask(draw: Draw, batch: tuple[int, ...], queries: int, keys: int) -> Tensor | None:
    shape = draw.choose((queries, keys), (*batch, queries, keys), (1, keys))
    kind = draw.choose("none", "bool", "float", "finite")
    if kind == "none":
        return None
    allowed = draw.flags(*shape)
    if kind == "bool":
        return allowed
    blocked = -torch.inf if kind == "float" else -2e9
    return torch.where(allowed, draw.normal(*shape).to(torch.float64), blocked).to(draw.dtype)


def attention_scores(draw: Draw) -> dict:
    batch, d = draw.lead(), draw.integer(1, 4)
    q, k = draw.normal(*batch, draw.integer(1, 4), d), draw.normal(*batch, draw.integer(1, 4), d)
    return {"q": q, "k": k, "scale": draw.choose(None, 0.3)}


def soft_cap(draw: Draw) -> dict:
    return {"s": 3 * draw.normal(*draw.lead(), 3), "c": draw.number(0.5, 5)}


def apply_mask(draw: Draw) -> dict:
    batch, queries, keys = draw.lead(), draw.integer(1, 4), draw.integer(1, 4)
    mask = _mask(draw, batch, queries, keys)
    return {"s": draw.normal(*batch, queries, keys), "M": draw.flags(queries, keys) if mask is None else mask}


def attention(draw: Draw) -> dict:
    groups, shared = draw.integer(1, 2), draw.integer(1, 2)
    queries, keys = draw.integer(1, 4), draw.integer(1, 5)
    d, value_dim = draw.integer(1, 4), draw.integer(1, 4)
    lead = draw.choose(None, (), (2,))
    batch, kv = ((), ()) if lead is None else ((*lead, groups * shared), (*lead, groups))
    bias_shape = draw.choose((queries, keys), (*batch, queries, keys))
    return {
        "q": draw.normal(*batch, queries, d),
        "k": draw.normal(*kv, keys, d),
        "v": draw.normal(*kv, keys, value_dim),
        "mask": _mask(draw, batch, queries, keys),
        "bias": draw.choose(None, draw.normal(*bias_shape)),
        "causal": draw.choose(False, True),
        "scale": draw.choose(None, 0.7),
        "softcap": draw.choose(None, 2.0),
    }


def dropout_attention(draw: Draw) -> dict:
    settings = {name: value for name, value in attention(draw).items() if name not in ("bias", "softcap")}
    generator = torch.Generator().manual_seed(draw.integer(0, 1000))
    return {**settings, "p": draw.choose(0.0, 0.1, 0.5), "generator": generator}


def window_attention(draw: Draw) -> dict:
    return {**_sparse(draw), "w": draw.integer(1, 5), "d": draw.integer(1, 3)}


def block_attention(draw: Draw) -> dict:
    return {**_sparse(draw), "b": draw.integer(1, 4)}


def _sparse(draw: Draw) -> dict:
    return {name: value for name, value in attention(draw).items() if name not in ("bias", "causal")}


def tiled_attention(draw: Draw) -> dict:
    batch, queries, keys, d = draw.lead(), draw.integer(1, 4), draw.integer(1, 5), draw.integer(1, 4)
    return {
        "q": draw.normal(*batch, queries, d),
        "k": draw.normal(*batch, keys, d),
        "v": draw.normal(*batch, keys, draw.integer(1, 4)),
        "mask": _mask(draw, batch, queries, keys),
        "block": draw.integer(1, 6),
        "scale": draw.choose(None, 0.7),
    }
