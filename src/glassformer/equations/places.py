"""Tokens that stand anywhere: masks, encodings and biases from their places, as a cache and padding need them.

A place is a token's position in its own sequence. A negative place holds no token and is seen by nobody.
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.equation import equation
from glassformer.equations.masks import in_blocks, in_window
from glassformer.equations.positions import collected, fading, priced, sine_rows
from glassformer.equations.ranges import even, float_type, positive, whole

_DISTANCE = "place of the key less that of the query"


@equation(
    r"r_{ij} = j - p_i",
    meaning="How far each key lies ahead of each query, wherever the two stand.",
    intuition="Milestones on a road: the difference of two numbers says how far apart they are.",
    symbols={"p": "places of the queries", "j": "places of the keys", "r": _DISTANCE},
)
def relative_places(
    p: Int[Tensor, "*#batch queries"], j: Int[Tensor, "*#batch keys"]
) -> Int[Tensor, "*batch queries keys"]:
    """Measure from every query to every key of the same sequence."""
    return j[..., None, :] - p[..., :, None]


@relative_places.def_cell
def _relative_places_cell(index: tuple[int, ...], p: Tensor, j: Tensor) -> str:
    *batch, query, key = index
    lead = torch.broadcast_shapes(p.shape[:-1], j.shape[:-1])
    return f"{int(j.expand(*lead, -1)[(*batch, key)])} − {int(p.expand(*lead, -1)[(*batch, query)])}"


@equation(
    r"V_{ij} = [\,0 \le j \le p_i\,] \wedge [\,j \text{ is in the pattern of } p_i\,]",
    meaning="A query sees the keys that its pattern shows: none ahead of it, none that stands for no token.",
    intuition="The same blinkers, cut for a reader who may have started anywhere on the page.",
    symbols={
        "r": _DISTANCE,
        "j": "places of the keys, negative where there is no token",
        "window": "number of keys a query sees, itself included; all of the past if not given",
        "dilation": "steps from one key of the window to the next",
        "block": "number of places in a block, of which only the last is seen from later ones",
        "V": "true where a query may look",
    },
)
def place_mask(
    r: Int[Tensor, "*batch queries keys"],
    j: Int[Tensor, "*#batch keys"],
    window: int | None = None,
    dilation: int = 1,
    block: int | None = None,
) -> Bool[Tensor, "*batch queries keys"]:
    """Say who sees whom from places alone, for the patterns of a causal decoder."""
    seen = r <= 0 if window is None else in_window(r, window, dilation)
    if block is not None:
        seen = seen & in_blocks(r, j[..., None, :], block)
    return seen & (j[..., None, :] >= 0)


@place_mask.def_check
def _place_mask_check(window: object, dilation: object, block: object) -> None:
    sizes = {"window": window, "dilation": dilation, "block": block}
    whole(place_mask.require, 1, **{name: size for name, size in sizes.items() if size is not None})


@equation(
    r"W_{ij} = V_{ij} \wedge L_{ij}",
    meaning="Where a text goes on in several ways, a query sees of the keys it may see those on its own line.",
    intuition="A family tree: one looks up to parents and grandparents, not across to cousins.",
    symbols={
        "V": "true where a query may look",
        "L": "true where a key is on the line of a query",
        "W": "true where both hold",
    },
)
def own_line(
    V: Bool[Tensor, "*#batch queries keys"], L: Bool[Tensor, "*#batch queries keys"]
) -> Bool[Tensor, "*batch queries keys"]:
    """Keep what lies on each query's own line of a tree (SpecInfer: Miao et al., 2023)."""
    return V & L


@equation(
    r"P_{p,2i} = \sin(p\, b^{-2i/d}), \quad P_{p,2i+1} = \cos(p\, b^{-2i/d})",
    meaning="The sinusoidal encoding of any places, not only of those from zero on.",
    intuition="Reading one page of the almanac without copying out all the pages before it.",
    symbols={
        "places": "places p, in any order",
        "dim": "width d of a row, even",
        "base": "base b: the slowest pair takes 2π b^((d − 2)/d) positions for one turn",
        "layout": "a sine beside its cosine, or all sines before all cosines",
        "dtype": "number type of the result; sines are taken in float64",
        "P": "one row per place",
    },
    flops=lambda shape, dim: 3 * (shape + 1) * (dim // 2),
)
def sinusoidal_at(
    places: Int[Tensor, "*shape"],
    dim: int,
    base: float = 10000.0,
    layout: Literal["adjacent", "halves"] = "adjacent",
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "*shape dim"]:
    """Encode given places by sines and cosines (Vaswani et al., 2017)."""
    return sine_rows(places, dim, base, layout).to(dtype)


@sinusoidal_at.def_check
def _sinusoidal_at_check(dim: object, base: object, layout: str, dtype: torch.dtype) -> None:
    sinusoidal_at.require(layout in ("adjacent", "halves"), "layout", repr(layout), "adjacent or halves")
    even(sinusoidal_at.require, dim=dim)
    positive(sinusoidal_at.require, base=base)
    float_type(sinusoidal_at.require, dtype)


@equation(
    r"B_{hij} = -m_h \left| r_{ij} \right|",
    meaning="A score is lowered in proportion to the distance, by each head at its own rate.",
    intuition="The same fading voice, for listeners who came in at different times.",
    symbols={
        "r": _DISTANCE,
        "heads": "number of heads",
        "dtype": "number type of the result",
        "B": "bias to add to the scores",
    },
    flops=lambda heads, batch, queries, keys: batch * heads * queries * keys + 3 * heads,
)
def alibi_at(
    r: Int[Tensor, "*batch queries keys"], heads: int, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*batch heads queries keys"]:
    """Bias scores against given distances (ALiBi: Press et al., 2022)."""
    return fading(r, heads).to(dtype)


@alibi_at.def_check
def _alibi_at_check(heads: object, dtype: torch.dtype) -> None:
    whole(alibi_at.require, 1, heads=heads)
    float_type(alibi_at.require, dtype)


@equation(
    r"B_{hij} = T_{b(r_{ij}),\, h}",
    meaning="Each head adds the number it has learned for the bucket of a distance.",
    intuition="The same price list for delivery, whatever door one starts from.",
    symbols={
        "table": "learned biases T, one row per bucket",
        "r": _DISTANCE,
        "bidirectional": "whether keys ahead have buckets of their own",
        "max_distance": "distance from which all share the last bucket",
        "B": "bias to add to the scores",
    },
    flops=lambda batch, queries, keys: 4 * batch * queries * keys,
)
def relative_bias_at(
    table: Float[Tensor, "buckets heads"],
    r: Int[Tensor, "*batch queries keys"],
    bidirectional: bool = True,
    max_distance: int = 128,
) -> Float[Tensor, "*batch heads queries keys"]:
    """Bias scores by learned numbers for given distances (T5: Raffel et al., 2020)."""
    return priced(table, r, bidirectional, max_distance)


@relative_bias_at.def_gradient(r"\bar T_{c,h} = \sum_{b(r_{ij}) = c} \bar B_{hij}")
def _relative_bias_at_gradient(
    B_bar: Tensor, table: Tensor, r: Tensor, bidirectional: bool, max_distance: int
) -> Tensor:
    return collected(B_bar, table, r, bidirectional, max_distance)


@relative_bias_at.def_check
def _relative_bias_at_check(table: Tensor, bidirectional: bool, max_distance: int) -> None:
    sides = 2 if bidirectional else 1
    enough = len(table) >= 2 * sides
    relative_bias_at.require(enough, "table", f"of shape {list(table.shape)}", f"at least {2 * sides} buckets")
    whole(relative_bias_at.require, len(table) // sides // 2 + 1, max_distance=max_distance)


@equation(
    r"y_{a_i} = x_i, \quad y_s = m_s \text{ elsewhere}",
    meaning="New rows are put into their slots of a store; the others stay.",
    intuition="Letters into pigeonholes.",
    symbols={
        "memory": "the store, one row per slot",
        "rows": "new rows",
        "at": "the slot of each new row, no slot twice",
        "y": "the store with the new rows in it",
    },
    flops=lambda: 0,
)
def write_rows(
    memory: Float[Tensor, "*batch slots dim"], rows: Float[Tensor, "*batch new dim"], at: Int[Tensor, " new"]
) -> Float[Tensor, "*batch slots dim"]:
    """Put rows into slots. The fused form writes into the store it was given and hands that back."""
    y = memory.clone()
    y[..., at.long(), :] = rows
    return y


@write_rows.def_fused
def _write_rows_fused(memory: Tensor, rows: Tensor, at: Tensor) -> Tensor:
    return memory.index_copy_(-2, at.long(), rows)


@write_rows.def_gradient(r"\bar m_{a_i} = 0, \; \bar m_s = \bar y_s \text{ elsewhere}, \quad \bar x_i = \bar y_{a_i}")
def _write_rows_gradient(y_bar: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    return y_bar.index_fill(-2, at.long(), 0), y_bar[..., at.long(), :]


@write_rows.def_check
def _write_rows_check(memory: Tensor, rows: Tensor, at: Tensor) -> None:
    write_rows.require_type("memory", memory, rows=rows)
    known = not at.numel() or (int(at.min()) >= 0 and int(at.max()) < memory.shape[-2])
    write_rows.require(known, "at", f"{at.tolist()[:3]}", f"slots from 0 to {memory.shape[-2] - 1}")
    write_rows.require(len(at.unique()) == len(at), "at", f"{at.tolist()[:3]}", "each slot once")
