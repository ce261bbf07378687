"""Attention maps as HTML: one heat map for each head, tokens beside it, the weight under the pointer.

Once this module is imported, Jupyter draws attention maps at the end of a cell.
"""

import html
from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from glassformer.probes.readout import AttentionMaps

TOKENS_SHOWN = 48  # rows and columns of a map
HEADS_SHOWN, MODULES_SHOWN = 12, 24
SQUARE, TEXT_WIDTH, TEXT_HEIGHT = 14, 70, 64  # pixels of a weight, and of the tokens beside and above the map
COLOR = "33, 102, 172"


def attention_html(maps: AttentionMaps) -> str:
    """The maps of the first text of a batch, module by module."""
    parts: list[str] = []
    for name, weights in list(maps.items())[:MODULES_SHOWN]:
        rows, columns = _labels(name, weights, maps.tokens)
        heads = list(weights.detach().float().cpu()[0][:HEADS_SHOWN])
        shown = f"{len(heads)} of {weights.shape[1]} heads" if len(heads) < weights.shape[1] else f"{len(heads)} heads"
        drawn = "".join(_svg(f"head {number}", head, rows, columns) for number, head in enumerate(heads))
        parts.append(f"<h4>{html.escape(name)}</h4><p>queries in rows, keys in columns; {shown}</p>{drawn}")
    if len(maps) > MODULES_SHOWN:
        parts.append(f"<p>and {len(maps) - MODULES_SHOWN} more modules</p>")
    return "".join(parts) or "<p>no attention</p>"


AttentionMaps._repr_html_ = attention_html


def _labels(name: str, weights: Tensor, tokens: Mapping[str, Sequence[str]]) -> tuple[list[str], list[str]]:
    """The tokens of the rows and columns: a decoder reads the target, and by cross-attention the source."""
    if "ids" in tokens:
        queries = keys = tokens["ids"]
    else:
        decodes = name.startswith("decoder")
        queries = tokens.get("target" if decodes else "source", ())
        keys = tokens.get("target" if decodes and "cross" not in name else "source", ())
    found = [
        list(words) or list(map(str, range(n))) for words, n in zip((queries, keys), weights.shape[-2:], strict=True)
    ]
    return found[0], found[1]


def _svg(title: str, weights: Tensor, rows: Sequence[str], columns: Sequence[str]) -> str:
    """The map of one head."""
    values = weights[:TOKENS_SHOWN, :TOKENS_SHOWN].tolist()
    width = TEXT_WIDTH + SQUARE * max(len(values[0]) if values else 0, 4) + 8
    height = TEXT_HEIGHT + SQUARE * len(values) + 20
    parts = [*_squares(values, rows, columns), _text(TEXT_WIDTH, height - 6, title)]
    parts += [_text(TEXT_WIDTH - 4, _at(i) + TEXT_HEIGHT + 11, rows[i], "end") for i in range(len(values))]
    for j in range(len(values[0]) if values else 0):
        x = TEXT_WIDTH + _at(j) + 10
        parts.append(_text(x, TEXT_HEIGHT - 4, columns[j], "start", f' transform="rotate(-60 {x} {TEXT_HEIGHT - 4})"'))
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">{"".join(parts)}</svg>'


def _squares(values: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    for i, row in enumerate(values):
        for j, weight in enumerate(row):
            corner = f'x="{TEXT_WIDTH + _at(j)}" y="{TEXT_HEIGHT + _at(i)}" width="{SQUARE}" height="{SQUARE}"'
            tip = html.escape(f"{rows[i]} to {columns[j]}: {weight:.3f}")
            yield f'<rect {corner} fill="rgba({COLOR}, {weight:.3f})"><title>{tip}</title></rect>'


def _at(index: int) -> int:
    return SQUARE * index


def _text(x: float, y: float, text: str, anchor: str = "start", more: str = "") -> str:
    style = 'font-family="sans-serif" font-size="10" fill="currentColor"'
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" {style}{more}>{html.escape(text[:12])}</text>'
