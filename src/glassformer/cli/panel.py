"""Live training panel on standard error, or plain lines where there is no terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from glassformer.cli.report import is_quiet, talk
from glassformer.views.panel import PlainLines, live_panel, panel_console


@contextmanager
def panel(steps: int, progress: bool = True) -> Iterator[PlainLines]:
    """Show a run of `steps` steps in a live panel; line by line without `progress` or a capable terminal."""
    console = panel_console() if progress and not is_quiet() else None
    if console is None:
        yield PlainLines(steps, talk)
        return
    with live_panel(steps, console) as live:
        yield live
