"""Live training panel on standard error, or plain lines where there is no terminal."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from glassformer.cli.report import is_quiet, talk
from glassformer.views.charts import sparkline
from glassformer.views.console import SafeConsole

if TYPE_CHECKING:
    from glassformer.training.loop import Log

CURVE_LINES = 6  # of the loss curve
NOTES_KEPT = 3  # latest notes that are shown
BESIDE = 16  # columns for the frame and the numbers beside the curve


class PlainLines:
    """One message for each log line, and one for each note."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.first: tuple[int, float] | None = None  # step and seconds of the first log line

    def update(self, log: "Log") -> None:
        """Show a log line."""
        losses = f"loss {log.loss:.4g}" + ("" if log.validation is None else f", validation {log.validation:.4g}")
        talk(", ".join([f"step {log.step:,} of {self.steps:,}: {losses}", *self._pace(log)]))
        if log.note:
            talk(log.note)
        sys.stderr.flush()

    def _pace(self, log: "Log") -> list[str]:
        """Tokens per second, fraction of peak and time left, as far as they are known."""
        parts = [f"{log.speed:,.0f} tokens/s", *([f"{100 * log.peak:.3g} % of peak"] if log.peak else [])]
        # A resumed run did not take its first steps in this time, so count from the first log line.
        self.first = self.first or (log.step, log.seconds)
        step, seconds = self.first
        if log.step == self.steps:
            return [*parts, f"{duration(0.0)} left"]
        if log.step == step:
            return parts
        left = (log.seconds - seconds) / (log.step - step) * (self.steps - log.step)
        return [*parts, f"{duration(left)} left"]


class LivePanel(PlainLines):
    """The loss curve, the current metrics, and the latest notes."""

    def __init__(self, steps: int, live: Live) -> None:
        super().__init__(steps)
        self.live = live
        self.losses: list[float] = []
        self.validation = ""  # the latest one, shown until the next
        self.notes: list[str] = []

    def update(self, log: "Log") -> None:
        """Redraw the panel with a log line."""
        self.losses.append(log.loss)
        if log.validation is not None:
            self.validation = f", validation {log.validation:.4g} at step {log.step:,}"
        self.notes += [f"step {log.step:,}: {log.note}"] if log.note else []
        rates = f"learning rate {log.learning_rate:.3g}, gradient norm {log.grad_norm:.3g}"
        lines = [
            *self._curve(),
            f"loss {log.loss:.4g}{self.validation}, {rates}",
            " · ".join(self._pace(log)),
            *self.notes[-NOTES_KEPT:],
        ]
        title = f"step {log.step:,} of {self.steps:,}"
        self.live.update(Panel(Text("\n".join(lines)), title=title, title_align="left"), refresh=True)

    def _curve(self) -> list[str]:
        width = max(self.live.console.width - BESIDE, 8)
        finite = [loss for loss in self.losses if abs(loss) < float("inf")]
        beside = [""] * CURVE_LINES
        if finite:
            beside[0], beside[-1] = f"{max(finite):.4g}", f"{min(finite):.4g}"
        return [
            f"{line} {number}".rstrip()
            for line, number in zip(sparkline(self.losses, width, CURVE_LINES), beside, strict=False)
        ]


@contextmanager
def panel(steps: int, progress: bool = True) -> Iterator[PlainLines]:
    """Show a run of `steps` steps in a live panel; line by line without `progress` or a capable terminal."""
    console = SafeConsole(stderr=True, markup=False, highlight=False, emoji=False)
    fit = console.is_terminal and not console.is_dumb_terminal and console.encoding.startswith("utf")
    if not progress or not fit or os.environ.get("NO_COLOR") or is_quiet():
        yield PlainLines(steps)
        return
    with Live(console=console, refresh_per_second=4, redirect_stdout=False) as live:  # it carries data
        yield LivePanel(steps, live)


def duration(seconds: float) -> str:
    """A duration in words."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
