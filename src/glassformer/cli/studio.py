"""`glassformer studio`: a local page that shows how a model computes, learns and translates."""

import os
import sys
import webbrowser
from threading import Timer
from typing import TYPE_CHECKING

from glassformer.cli.named_model import LoadOptions, ModelName, load_named, preset_called
from glassformer.cli.report import Flag, RunStep, UsageError, talk

if TYPE_CHECKING:
    from glassformer.studio.sessions import Sessions

HIGHEST_PORT = 65_535
BROWSER_DELAY = 0.5  # seconds until the server answers


def studio(
    model: ModelName | None = None, /, *, port: int = 8765, no_browser: Flag = False, step: RunStep = None
) -> None:
    """Open a page on this machine that shows every number of a model beside the equation that made it.

    Without a model it opens on the built-in translator, which is trained on the first start.

    Parameters
    ----------
    port
        Port of the page on this machine; 0 takes any free one.
    no_browser
        Print the address only; else the page opens in a browser where there is a desktop.
    """
    if not 0 <= port <= HIGHEST_PORT:
        raise UsageError(f"--port is {port}, wanted 0 to {HIGHEST_PORT:,}")
    if model is not None:
        preset_called(model, step)  # raises if there is no such model, before anything is opened
    from glassformer.studio.serving import listen, require_studio, serve

    require_studio()
    try:
        listening = listen(port)
    except OSError as error:
        raise UsageError(f"port {port} cannot be used ({error.strerror}): choose another with --port") from None
    from glassformer.planning.plan import plan
    from glassformer.studio.app import studio_app
    from glassformer.studio.guard import Access
    from glassformer.studio.sessions import Sessions

    sessions, access = Sessions(), Access(listening.getsockname()[1])
    _add_model(sessions, model, step)
    talk(f"Studio is at {access.address}")
    talk("Ctrl-C stops it")
    if not no_browser and _on_a_desktop():
        Timer(BROWSER_DELAY, webbrowser.open, (access.address,)).start()
    try:
        serve(studio_app(sessions, access, plan), listening)
    finally:
        if sessions.first is not None:
            sessions.first.stop()


def _on_a_desktop() -> bool:
    """Whether there is a desktop to open a page on: not in a pipe, not on a server."""
    windows = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    return windows and sys.stderr is not None and sys.stderr.isatty()


def _add_model(sessions: "Sessions", model: str | None, step: int | None) -> None:
    if model is None:
        from glassformer.studio.first_model import NAME, FirstModel

        sessions.first = FirstModel(say=talk).start()
        sessions.add_model(NAME, sessions.first.loaded)
        return
    sessions.add_model(model, load_named(model, LoadOptions(step=step, device="cpu", weights="float32")))
