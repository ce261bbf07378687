"""The live panel of a run on standard error; plain lines where nobody watches or nobody wants it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from glassformer.cli.report import talk
from glassformer.views.console import SafeConsole
from glassformer.views.charts import sparkline

if TYPE_CHECKING:
    from glassformer.training.loop import Log

CURVE_LINES = 6  # of the loss curve
NOTES_KEPT = 3  # notes that stay in sight
BESIDE = 16  # columns for the frame and the numbers beside the curve


class Display(Protocol):
    """Somebody who is told of each log line."""

    def update(self, log: "Log") -> None:
        """Show what a log line says."""


@contextmanager
def panel(steps: int, progress: bool = True) -> Iterator[Display]:
    """Show a run of so many steps while it goes on; without `progress`, or where that cannot be, line by line."""
    console = SafeConsole(stderr=True, markup=False, highlight=False, emoji=False)
    fit = console.is_terminal and not console.is_dumb_terminal and console.encoding.startswith("utf")
    if not progress or not fit or os.environ.get("NO_COLOR"):
        yield PlainLines(steps)
        return
    with Live(console=console, refresh_per_second=4, redirect_stdout=False) as live:  # what goes there is data
        yield LivePanel(steps, live)


class PlainLines:
    """One line of talk for each log line, one for each note."""

    def __init__(self, steps: int) -> None:
        self.steps, self.pace = steps, Pace(steps)

    def update(self, log: "Log") -> None:
        """Say it."""
        losses = f"loss {log.loss:.4g}" + ("" if log.validation is None else f", validation {log.validation:.4g}")
        talk(", ".join([f"step {log.step:,} of {self.steps:,}: {losses}", *self.pace.parts(log)]))
        if log.note:
            talk(log.note)
        sys.stderr.flush()


class LivePanel:
    """The loss curve, where the run stands, and what it has to say."""

    def __init__(self, steps: int, live: Live) -> None:
        self.steps, self.live, self.pace = steps, live, Pace(steps)
        self.losses: list[float] = []
        self.held_out = ""  # the last validation, which stays in sight until the next one
        self.notes: list[str] = []

    def update(self, log: "Log") -> None:
        """Draw it anew."""
        self.losses.append(log.loss)
        if log.validation is not None:
            self.held_out = f", validation {log.validation:.4g} at step {log.step:,}"
        self.notes += [f"step {log.step:,}: {log.note}"] if log.note else []
        lines = [
            *self._curve(),
            f"loss {log.loss:.4g}{self.held_out}, learning rate {log.learning_rate:.3g}, gradient norm {log.grad_norm:.3g}",
            " · ".join(self.pace.parts(log)),
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


class Pace:
    """How fast a run goes, and how long it will."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.first: tuple[int, float] | None = None  # the step and the second of the first log line

    def parts(self, log: "Log") -> list[str]:
        """Speed, share of the peak and time left, those of them that are known."""
        parts = [f"{log.speed:,.0f} tokens/s"]
        if log.peak:
            parts.append(f"{100 * log.peak:.3g} % of peak")
        left = self._left(log)
        return [*parts, f"{duration(left)} left"] if left is not None else parts

    def _left(self, log: "Log") -> float | None:
        # A run that was resumed did not take its first steps in this time, so it is measured from line to line.
        if self.first is None:
            self.first = log.step, log.seconds
        step, seconds = self.first
        if log.step == self.steps:
            return 0.0
        return (log.seconds - seconds) / (log.step - step) * (self.steps - log.step) if log.step > step else None


def duration(seconds: float) -> str:
    """A time as a person would say it."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
