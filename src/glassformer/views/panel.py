"""Training as it runs: a live panel in a terminal, a progress bar in a notebook, or plain lines."""

import html
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from glassformer.charts import sparkline
from glassformer.views.console import SafeConsole, escaped_line

if TYPE_CHECKING:
    from glassformer.training.step import Log

CURVE_LINES = 6  # of the loss curve
NOTES_KEPT = 3  # latest notes that are shown
BESIDE = 16  # columns for the frame and the numbers beside the curve


class PlainLines:
    """One message for each log line, and one for each note and sample."""

    def __init__(self, steps: int, say: Callable[[str], None]) -> None:
        self.steps, self.say = steps, say
        self.first: tuple[int, float] | None = None  # step and seconds of the first log line

    def update(self, log: "Log") -> None:
        """Show a log line."""
        losses = f"loss {log.loss:.4g}" + ("" if log.validation is None else f", validation {log.validation:.4g}")
        self.say(", ".join([f"step {log.step:,} of {self.steps:,}: {losses}", *self._pace(log)]))
        if log.note:
            self.say(log.note)
        if log.sample:
            self.say(f"sample: {log.sample}")
        sys.stderr.flush()

    def _pace(self, log: "Log") -> list[str]:
        """Tokens per second, model FLOPs utilization (MFU), time taken and time left, as far as they are known."""
        parts = [f"{log.speed:,.0f} tokens/s", *([f"MFU {100 * log.peak:.3g} %"] if log.peak else [])]
        parts.append(f"{duration(log.seconds)} elapsed")
        # A resumed run did not take its first steps in this time, so count from the first log line.
        self.first = self.first or (log.step, log.seconds)
        step, seconds = self.first
        if log.step == self.steps:
            return [*parts, f"{duration(0.0)} left"]
        if log.step == step:
            return parts
        left = (log.seconds - seconds) / (log.step - step) * (self.steps - log.step)
        return [*parts, f"{duration(left)} left"]


class PanelLines(PlainLines):
    """The lines of a panel: the loss curve, the current metrics, the latest sample and notes."""

    def __init__(self, steps: int) -> None:
        super().__init__(steps, lambda text: None)
        self.losses: list[float] = []
        self.validation = ""  # the latest one, shown until the next
        self.notes: list[str] = []
        self.sample: list[str] = []  # the latest one, as a line

    def lines(self, log: "Log", width: int) -> list[str]:
        """The lines after a log line, with a curve of this width."""
        self.losses.append(log.loss)
        if log.validation is not None:
            self.validation = f", validation {log.validation:.4g} at step {log.step:,}"
        self.sample = [f"sample: {escaped_line(log.sample)}"] if log.sample else self.sample
        self.notes += [f"step {log.step:,}: {log.note}"] if log.note else []
        rates = f"learning rate {log.learning_rate:.3g}, gradient norm {log.grad_norm:.3g}"
        return [
            *self._curve(width),
            f"loss {log.loss:.4g}{self.validation}, {rates}",
            " · ".join(self._pace(log)),
            *self.sample,
            *self.notes[-NOTES_KEPT:],
        ]

    def _curve(self, width: int) -> list[str]:
        finite = [loss for loss in self.losses if abs(loss) < float("inf")]
        beside = [""] * CURVE_LINES
        if finite:
            beside[0], beside[-1] = f"{max(finite):.4g}", f"{min(finite):.4g}"
        return [
            f"{line} {number}".rstrip()
            for line, number in zip(sparkline(self.losses, width, CURVE_LINES), beside, strict=False)
        ]


class LivePanel(PanelLines):
    """The panel in a terminal, redrawn with each log line."""

    def __init__(self, steps: int, live: Live) -> None:
        super().__init__(steps)
        self.live = live

    def update(self, log: "Log") -> None:
        """Redraw the panel with a log line."""
        lines = self.lines(log, max(self.live.console.width - BESIDE, 8))
        title = f"step {log.step:,} of {self.steps:,}"
        self.live.update(Panel(Text("\n".join(lines)), title=title, title_align="left"), refresh=True)


class NotebookPanel(PanelLines):
    """The panel in a notebook, below a progress bar; `display` is the module IPython.display."""

    def __init__(self, steps: int, display: ModuleType) -> None:
        super().__init__(steps)
        self.display = display
        self.handle = display.display(display.HTML("starting"), display_id=True)

    def update(self, log: "Log") -> None:
        """Redraw the panel with a log line."""
        text = html.escape("\n".join(self.lines(log, 64)))
        bar = f'<progress max="{self.steps}" value="{log.step}"></progress> step {log.step:,} of {self.steps:,}'
        self.handle.update(self.display.HTML(f'{bar}<pre style="line-height: 1.1">{text}</pre>'))


def panel_console() -> SafeConsole | None:
    """The terminal on standard error, if it can show a panel."""
    console = SafeConsole(stderr=True, markup=False, highlight=False, emoji=False)
    fit = console.is_terminal and not console.is_dumb_terminal and console.encoding.startswith("utf")
    return console if fit and not os.environ.get("NO_COLOR") else None


@contextmanager
def live_panel(steps: int, console: SafeConsole) -> Iterator[LivePanel]:
    """A panel for a run of `steps` steps in a terminal."""
    with Live(console=console, refresh_per_second=4, redirect_stdout=False) as live:  # it carries data
        yield LivePanel(steps, live)


def notebook_display() -> ModuleType | None:
    """The module IPython.display where code runs in a notebook, else None."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return importlib.import_module("IPython.display") if hasattr(shell, "kernel") else None


def duration(seconds: float) -> str:
    """A duration in words."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
