"""`gf.train`: training from Python, with progress in a terminal or a notebook."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from glassformer.training.run import Run, prepare_task
from glassformer.training.step import Log
from glassformer.views.console import escaped_line
from glassformer.views.panel import NotebookPanel, PlainLines, live_panel, notebook_display, panel_console

Watch = Callable[[Log], None]


def train(
    task: str | None = None,
    settings: Mapping[str, object] | None = None,
    *,
    out: Path | str | None = None,
    preset: str | None = None,
    config: Path | str | None = None,
    resume: bool = False,
    size: str | None = None,
    watch: Watch | None = None,
) -> Run:
    """Train a model as `glassformer train` does: a task, settings by key, and a folder for the run.

    Settings are those that `glassformer config TASK` lists, such as {"recipe.steps": 500}; `size` is tiny, small or
    base, and follows from the machine and the data where it is not given. Progress is shown in a terminal or a
    notebook, unless `watch` is given, which gets each log line instead.
    """
    quiet = watch is not None or not (_is_terminal() or notebook_display())
    report = (lambda text: None) if quiet else _say
    where = {"out": out, "preset": preset, "config": config}
    run = prepare_task(task, settings, **where, resume=resume, size=size, report=report)
    with progress(run.settings.recipe.steps, watch) as show:
        for log in run.train(resume):
            show(log)
    return run


@contextmanager
def progress(steps: int, watch: Watch | None = None) -> Iterator[Watch]:
    """A function that shows a log line: `watch`, or else a panel in a notebook or terminal, or nothing in a pipe."""
    notebook, console = notebook_display(), panel_console()
    if watch is not None:
        yield watch
    elif notebook is not None:
        yield NotebookPanel(steps, notebook).update
    elif console is not None:
        with live_panel(steps, console) as live:
            yield live.update
    else:
        yield PlainLines(steps, _say).update if _is_terminal() else lambda log: None


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _say(text: str) -> None:
    print(escaped_line(text), file=sys.stderr)
