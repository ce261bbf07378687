"""A trace as one HTML page: formulas as MathML, matrices as heat maps, arithmetic under the pointer.

Once this module is imported, Jupyter shows a trace at the end of a cell as its page.
"""

import base64
import gzip
import html
import math
from importlib import resources

import msgspec
from torch import Tensor

from glassformer.arithmetic import MINUS, number
from glassformer.probes.cells import written
from glassformer.probes.trace import Trace, TraceStep
from glassformer.views.mathml import mathml
from glassformer.views.terminal import (
    MatrixWindow,
    agreement_text,
    not_a_number,
    number_text,
    shape_text,
    shown_shape,
    size_text,
    windows,
)

ROWS_SHOWN, COLUMNS_SHOWN = 32, 32
NUMBERS = 1_200_000  # at most in a page, which shows fewer matrices of each step to stay below, though always one
CELLS = 12_000  # numbers of a page that have their arithmetic, divided among its steps
# The page fetches nothing.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def trace_page(trace: Trace, title: str = "") -> str:
    """The HTML page of a trace, which needs no other file and fetches nothing."""
    title = title or f"{type(trace.model).__name__}, every equation of one run"
    facts = [f"{len(trace.steps)} steps"]
    facts += [f"loss {not_a_number(float(trace.loss)) or number(trace.loss)}"] if trace.loss is not None else []
    facts += [" ".join(words) for words in trace.tokens.values()]
    facts += [agreement_text(trace)] if trace.difference is not None else []
    packed = base64.b64encode(gzip.compress(msgspec.json.encode(_page_data(trace)), 6, mtime=0)).decode()
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="glassformer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<link rel="icon" href="data:,">
<title>{html.escape(title)}</title>
<style>{_resource("page.css")}</style>
</head>
<body>
<h1>{html.escape(title)}</h1>
{"".join(f"<p>{html.escape(fact)}</p>" for fact in facts)}
<label>Find a step <input id="find" type="search" placeholder="layers.0 attention weights"></label>
<main id="steps"></main>
<script type="text/plain" id="data">{packed}</script>
<script>{_resource("page.js")}</script>
</body>
</html>
"""


def trace_frame(shown: Trace) -> str:
    """The page of a trace in an iframe, so that its style and the notebook's do not mix."""
    page = html.escape(trace_page(shown), quote=True)
    return f'<iframe srcdoc="{page}" title="trace" style="width: 100%; height: 40rem; border: 0"></iframe>'


Trace._repr_html_ = trace_frame


def _resource(name: str) -> str:
    return resources.files("glassformer.views").joinpath(name).read_text(encoding="utf-8")


def _page_data(trace: Trace) -> dict[str, object]:
    equations = {step.equation.name: step.equation for step in trace.steps}
    most = 16  # matrices of each step
    while most > 1 and sum(_numbers_shown(step, most) for step in trace.steps) > NUMBERS:
        most //= 2
    return {
        "equations": {
            name: {
                "formula": mathml(equation.latex),
                "rule": mathml(equation.gradient.latex) if equation.gradient and trace.gradients else None,
                "meaning": equation.meaning,
            }
            for name, equation in equations.items()
        },
        "steps": [_step_data(step, most, max(4, CELLS // len(trace.steps))) for step in trace.steps],
    }


def _numbers_shown(step: TraceStep, most: int) -> int:
    *leading, rows, columns = (1, 1, *step.value_shape)
    shown = min(most, math.prod(leading)) * min(rows, ROWS_SHOWN) * min(columns, COLUMNS_SHOWN)
    return shown * (1 if step.gradient is None else 2)


def _step_data(step: TraceStep, most: int, cells: int) -> dict[str, object]:
    shown = list(windows(step, step.value, ROWS_SHOWN, COLUMNS_SHOWN, most)) if isinstance(step.output, Tensor) else []
    value = []
    for window in shown:
        arithmetic = _arithmetic(step, window, cells)
        value.append(_window_data(step, window, arithmetic))
        cells -= sum(map(len, arithmetic))
    back = [] if step.gradient is None else windows(step, step.gradient, ROWS_SHOWN, COLUMNS_SHOWN, most)
    return {
        "name": step.name,
        "depth": step.depth,
        "equation": step.equation.name,
        "letter": step.equation.results[0].name,
        "shape": shown_shape(step),
        "operations": step.cost.flops,
        "symbols": [
            (bound.symbol.name, bound.symbol.meaning, _bound_text(bound.value), bound.source, gradient)
            for bound in step.symbols
            if bound.value is not None
            for gradient in ["" if bound.gradient is None else f"gradient {size_text(bound.gradient)}"]
        ],
        "value": value,
        "left": step.value.numel() - sum(len(row) for w in shown for row in w.values) if shown else 0,
        "gradient": None if step.gradient is None else [_window_data(step, window, []) for window in back],
    }


def _window_data(step: TraceStep, window: MatrixWindow, arithmetic: list[list[str]]) -> dict[str, object]:
    """A matrix as the page draws it; `cells` is the arithmetic of its first rows and columns."""
    # numbers in the digits that are shown; NaN and infinities, which JSON lacks, as text
    values = [[not_a_number(x) or float(number(x).replace(MINUS, "-")) for x in row] for row in window.values]
    return vars(window) | {"axes": len(step.shape), "values": values, "cells": arithmetic}


def _arithmetic(step: TraceStep, window: MatrixWindow, most: int) -> list[list[str]]:
    """The arithmetic of the first rows and columns of a window, of `most` numbers at most."""
    height, width = len(window.values), len(window.values[0])
    rows = min(height, max(math.isqrt(most), most // width)) if most > 0 else 0
    columns = min(width, most // rows) if rows else 0
    (top, left), missing = window.start, max(0, 2 - len(step.shape))  # axes that a window has and the tensor has not
    at = [[(*window.index, top + i, left + j)[missing:] for j in range(columns)] for i in range(rows)]
    return [[written(step.step, index) for index in row] for row in at]


def _bound_text(value: object) -> str:
    if isinstance(value, Tensor):
        return shape_text(value.shape)
    return f"{len(value)} tensors" if isinstance(value, (list, tuple)) else number_text(value)
