"""Jupyter: once this module is imported, a trace at the end of a cell is shown as its HTML page."""

import html

from glassformer.probes.trace import Trace, trace
from glassformer.views.html import trace_page

__all__ = ["trace", "trace_frame"]


def trace_frame(shown: Trace) -> str:
    """The page of a trace in an iframe, so that its style and the notebook's do not mix."""
    page = html.escape(trace_page(shown), quote=True)
    return f'<iframe srcdoc="{page}" title="trace" style="width: 100%; height: 40rem; border: 0"></iframe>'


Trace.shown_by(trace_frame)
