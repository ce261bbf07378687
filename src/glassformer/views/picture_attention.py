"""Attention over patches, drawn on the picture: one small picture for each head of each layer, as HTML."""

import base64
import html
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, UInt8
from torch import Tensor

from glassformer.data.png import png_bytes
from glassformer.errors import ModelError
from glassformer.probes.readout import AttentionMaps

SIDE = 168  # pixels of a drawing
COLOR = "255, 80, 0"
OPAQUE = 0.8  # of the patch with the most attention
STYLE = "body{font-family:sans-serif;margin:2rem}figure{display:inline-block;margin:4px;text-align:center}"


def picture_attention_page(title: str, pixels: UInt8[np.ndarray, "height width channels"], maps: AttentionMaps) -> str:
    """A page that shows where the class token looks, or all patches on average where there is none."""
    parts = [f"<h3>{html.escape(name)}</h3>{''.join(_layer(pixels, weights))}" for name, weights in maps.items()]
    if not parts:
        raise ModelError("the model has no attention to draw")
    head = f'<meta charset="utf-8"><meta name="generator" content="glassformer"><title>{html.escape(title)}</title>'
    note = "The brighter a patch, the more attention it gets, within each head. Point at a patch for its weight."
    body = f"<h2>{html.escape(title)}</h2><p>{note}</p>{''.join(parts)}"
    return f"<!doctype html><html><head>{head}<style>{STYLE}</style></head><body>{body}</body></html>\n"


def patch_attention(weights: Float[Tensor, "batch heads queries keys"]) -> Float[Tensor, "heads side side"]:
    """The attention of the class token to each patch of the first picture; without one, the mean over all patches."""
    first = weights[0].detach().float().cpu()
    patches = first.shape[-1]
    side = round(patches**0.5)
    if side * side == patches:
        return first.mean(-2).unflatten(-1, (side, side))
    side = round((patches - 1) ** 0.5)
    if side * side != patches - 1:
        raise ModelError(f"attention is over {patches} positions, wanted the patches of a square picture")
    return first[:, 0, 1:].unflatten(-1, (side, side))


def _layer(pixels: UInt8[np.ndarray, "height width channels"], weights: Tensor) -> Iterator[str]:
    picture = base64.b64encode(png_bytes(pixels)).decode()
    size = f'width="{SIDE}" height="{SIDE}" style="image-rendering:pixelated"'
    image = f'<image href="data:image/png;base64,{picture}" {size}/>'
    for number, head in enumerate(patch_attention(weights)):
        squares = "".join(_squares(head))
        drawn = f'<svg width="{SIDE}" height="{SIDE}" viewBox="0 0 {SIDE} {SIDE}" role="img">{image}{squares}</svg>'
        yield f"<figure>{drawn}<figcaption>head {number}</figcaption></figure>"


def _squares(head: Float[Tensor, "side side"]) -> Iterator[str]:
    size, most = SIDE / len(head), float(head.max()) or 1.0
    for row, values in enumerate(head.tolist()):
        for column, weight in enumerate(values):
            corner = f'x="{column * size:.2f}" y="{row * size:.2f}" width="{size:.2f}" height="{size:.2f}"'
            tip = f"row {row}, column {column}: {weight:.3f}"
            yield f'<rect {corner} fill="rgba({COLOR}, {OPAQUE * weight / most:.3f})"><title>{tip}</title></rect>'
