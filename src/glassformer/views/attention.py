"""Attention maps in a notebook: every head as a thumbnail, one large, and ribbons between its tokens.

Once this module is imported, Jupyter shows attention maps at the end of a cell.
"""

import msgspec

from glassformer.probes.readout import AttentionMaps
from glassformer.views.attention_sheet import AttentionSheet, attention_tokens, maps_sheet
from glassformer.views.bundle import document, frame
from glassformer.views.stored_numbers import StoredPart, fitting, store

NUMBERS = 150_000  # of all maps, at most
FRAME_HEIGHT = 640  # pixels


class MapStep(msgspec.Struct, frozen=True):
    """A map as the Attention view knows it: a step with the inputs whose tokens stand on its rows and columns."""

    name: str
    labels: list[str | None]
    gradient: bool = False


class MapRun(msgspec.Struct, frozen=True):
    """What the Attention view needs to know of a run."""

    tokens: dict[str, list[str]]
    steps: list[MapStep]


class MapsData(msgspec.Struct, frozen=True):
    """Attention maps without their numbers."""

    run: MapRun
    tensors: list[StoredPart]
    positions: dict[str, dict[str, list[int | None]]]
    sheet: AttentionSheet


def attention_html(maps: AttentionMaps) -> str:
    """The maps of the first text of a batch, in an iframe."""
    first = {name: weights[:1] for name, weights in maps.items()}
    stored, numbers = store(list(first.values()), fitting(list(first.values()), NUMBERS))
    cut = {
        name: weights[tuple(map(slice, each.shape))]
        for (name, weights), each in zip(first.items(), stored, strict=True)
    }
    steps = [MapStep(name, attention_tokens(name, weights, maps.tokens)) for name, weights in first.items()]
    run = MapRun({name: list(words) for name, words in maps.tokens.items()}, steps)
    positions = {name: {"": [position, None]} for position, name in enumerate(first)}
    data = MapsData(run, stored, positions, maps_sheet(AttentionMaps(cut)))
    page = document("attention maps", "", "show_maps.js", {"run": msgspec.json.encode(data), "numbers": numbers})
    return frame(page, "attention maps", FRAME_HEIGHT)


AttentionMaps._repr_html_ = attention_html
