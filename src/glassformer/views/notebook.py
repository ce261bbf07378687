"""Jupyter: with this file read, a trace that ends a cell is shown as its page is."""

import html

from glassformer.probes.trace import Trace, trace
from glassformer.views.html import trace_page

__all__ = ["trace", "trace_frame"]


def trace_frame(shown: Trace) -> str:
    """The page of a trace in a frame of its own, so that neither it nor the notebook changes the other's looks."""
    page = html.escape(trace_page(shown), quote=True)
    return f'<iframe srcdoc="{page}" title="trace" style="width: 100%; height: 40rem; border: 0"></iframe>'


Trace.shown_by(trace_frame)
