"""Every attention map of a run as a small picture: a sheet of thumbnails, one for each head of each layer."""

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
from torch import Tensor
from torch.nn.functional import adaptive_max_pool2d

from glassformer.probes.interventions import head_attribution
from glassformer.probes.readout import AttentionMaps, attention_steps
from glassformer.probes.trace import Trace

SIDE = 32  # rows and columns of a thumbnail, at most
Kind = Literal["self", "causal", "cross"]


class AttentionMapData(msgspec.Struct, frozen=True):
    """The attention of one module: the step that has the weights, and how they are drawn."""

    step: str
    stack: str  # what the layers belong to, such as `decoder`; empty where there is one stack
    layer: int | None
    kind: Kind
    heads: int
    shape: tuple[int, int]  # queries and keys
    thumbnail: tuple[int, int]  # rows and columns of each head's thumbnail
    attribution: list[float] | None  # the rise of the loss if a head gave zero, to first order


class AttentionSheet(msgspec.Struct, frozen=True):
    """All maps in the order of the run, and their thumbnails: float32 in base64, map by map, head by head."""

    maps: list[AttentionMapData]
    thumbnails: str


def attention_sheet(trace: Trace) -> AttentionSheet:
    """The maps of the first text of a run; with attribution if it went backward."""
    rises = head_attribution(trace) if trace.gradients else {}
    found = [
        (trace.names[weights.path], weights.output, rises.get(trace.names[top.path]))
        for top, weights in attention_steps(trace.tape).items()
    ]
    return _sheet(found)


def maps_sheet(maps: AttentionMaps) -> AttentionSheet:
    """The maps that `attention_maps` found, each under the name of its module."""
    return _sheet((name, weights, None) for name, weights in maps.items())


def attention_tokens(name: str, weights: Tensor, tokens: Mapping[str, Sequence[str]]) -> list[str | None]:
    """The inputs whose tokens stand on the rows and columns of a map: by cross-attention a decoder reads the source."""
    if len(tokens) == 1:
        inputs = [*tokens, *tokens]
    else:
        rows = "target" if name.startswith("decoder") else "source"
        inputs = [rows, "source" if "cross" in name else rows]
    return [
        each if len(tokens.get(each, ())) == n else None for each, n in zip(inputs, weights.shape[-2:], strict=True)
    ]


def _sheet(found: Iterable[tuple[str, Tensor, Tensor | None]]) -> AttentionSheet:
    maps: list[AttentionMapData] = []
    numbers: list[bytes] = []
    for step, weights, rise in found:
        if weights.dim() != 4:
            continue
        first = weights.detach()[0].float().cpu()
        small = adaptive_max_pool2d(first, [min(SIDE, n) for n in first.shape[1:]])
        maps.append(_map(step, first, small, rise))
        numbers.append(small.contiguous().numpy().astype("<f4").tobytes())
    return AttentionSheet(maps, base64.b64encode(b"".join(numbers)).decode())


def _map(step: str, weights: Tensor, small: Tensor, rise: Tensor | None) -> AttentionMapData:
    heads, queries, keys = weights.shape
    position = re.match(r"(?:(.*)\.)?(?:layers|blocks)\.(\d+)\.", step)
    return AttentionMapData(
        step=step,
        stack=(position[1] or "") if position else "",
        layer=int(position[2]) if position else None,
        kind=_kind(step, weights),
        heads=heads,
        shape=(queries, keys),
        thumbnail=(small.shape[1], small.shape[2]),
        attribution=None if rise is None else rise.tolist(),
    )


def _kind(step: str, weights: Tensor) -> Kind:
    if ".cross_attention" in f".{step}":
        return "cross"
    ahead = weights.triu(1)
    return "causal" if weights.shape[1] == weights.shape[2] > 1 and not ahead.any() else "self"
