"""A training run in a notebook: its facts, its curves and its latest sample.

Once this module is imported, Jupyter shows a run at the end of a cell.
"""

import html

from glassformer.charts import training_curves
from glassformer.training.run import Run
from glassformer.views.bundle import document, frame

FRAME_HEIGHT = 620  # pixels


def run_frame(run: Run) -> str:
    """A run as a page in an iframe."""
    samples = [log.sample for log in run.logs if log.sample]
    sample = f"<p>sample: {html.escape(samples[-1])}</p>" if samples else ""
    body = f"<p>{html.escape(repr(run))}</p>{training_curves([vars(log) for log in run.logs])}{sample}"
    return frame(document("run", body, None, {}), "run", FRAME_HEIGHT)


Run._repr_html_ = run_frame
