"""A trace as one HTML page: the Step, Attention and Path views of the Studio with the numbers inside.

Once this module is imported, Jupyter shows a trace at the end of a cell as its page.
"""

import html
from collections.abc import Sequence

import msgspec

from glassformer.arithmetic import number
from glassformer.decoding.predictions import Predictor
from glassformer.probes.trace import Trace
from glassformer.text.tokenizer import Tokenizer
from glassformer.views.bundle import document, font_bytes, frame
from glassformer.views.file_cells import file_cells
from glassformer.views.file_data import file_data
from glassformer.views.terminal import agreement_text, not_a_number

FRAME_HEIGHT = 640  # pixels of a trace in a notebook


def trace_page(
    trace: Trace, title: str = "", tokenizer: Tokenizer | None = None, labels: Sequence[str] | None = None
) -> str:
    """The HTML page of a trace, which needs no other file and fetches nothing.

    With the tokenizer or the labels of the model, it names what the model predicts.
    """
    font = font_bytes()
    return _page(trace, title, Predictor(trace, tokenizer, labels), {} if font is None else {"font": font})


def trace_frame(shown: Trace) -> str:
    """The page of a trace in an iframe, so that its style and the notebook's do not mix; without its own font."""
    return frame(_page(shown, "", Predictor(shown), {}), "trace", FRAME_HEIGHT)


Trace._repr_html_ = trace_frame


def _page(trace: Trace, title: str, predictor: Predictor, more: dict[str, bytes]) -> str:
    title = title or f"{type(trace.model).__name__}, every equation of one run"
    data, numbers = file_data(trace, predictor, file_cells(trace))
    facts = [f"{len(trace.steps)} steps"]
    facts += [f"loss {not_a_number(float(trace.loss)) or number(trace.loss)}"] if trace.loss is not None else []
    facts += [" ".join(words) for words in trace.tokens.values()]
    facts += [agreement_text(trace)] if trace.difference is not None else []
    facts += [data.left_out] if data.left_out else []
    body = f"<h1>{html.escape(title)}</h1>\n" + "\n".join(f"<p>{html.escape(fact)}</p>" for fact in facts)
    return document(title, body, "exported.js", {"run": msgspec.json.encode(data), "numbers": numbers} | more)
