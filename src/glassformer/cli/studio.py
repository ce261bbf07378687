"""`glassformer studio`: a local page that shows how a model computes, learns and translates."""

import webbrowser
from threading import Timer
from typing import TYPE_CHECKING

from glassformer.cli.named_model import LoadOptions, ModelName, load_named
from glassformer.cli.report import Flag, RunStep, UsageError, talk

if TYPE_CHECKING:
    from glassformer.studio.sessions import Sessions

HIGHEST_PORT = 65_535
BROWSER_DELAY = 0.5  # seconds until the server answers


def studio(model: ModelName | None = None, /, *, port: int = 8765, browser: Flag = False, step: RunStep = None) -> None:
    """Open a page on this machine that shows every number of a model beside the equation that made it.

    Without a model it opens on the built-in translator, which is trained on the first start.

    Parameters
    ----------
    port
        Port of the page on this machine; 0 takes any free one.
    browser
        Open the page in the browser.
    """
    if not 0 <= port <= HIGHEST_PORT:
        raise UsageError(f"--port is {port}, wanted 0 to {HIGHEST_PORT:,}")
    from glassformer.studio.serving import listen, require_studio, serve

    require_studio()
    try:
        listening = listen(port)
    except OSError as error:
        raise UsageError(f"port {port} cannot be used ({error.strerror}): choose another with --port") from None
    from glassformer.studio.app import studio_app
    from glassformer.studio.guard import Access
    from glassformer.studio.sessions import Sessions

    sessions, access = Sessions(), Access(listening.getsockname()[1])
    _add_model(sessions, model, step)
    talk(f"Studio is at {access.address}")
    talk("Ctrl-C stops it")
    if browser:
        Timer(BROWSER_DELAY, webbrowser.open, (access.address,)).start()
    try:
        serve(studio_app(sessions, access), listening)
    finally:
        if sessions.first is not None:
            sessions.first.stop()


def _add_model(sessions: "Sessions", model: str | None, step: int | None) -> None:
    if model is None:
        from glassformer.studio.first_model import NAME, FirstModel

        sessions.first = FirstModel(say=talk).start()
        sessions.add_model(NAME, sessions.first.loaded)
        return
    sessions.add_model(model, load_named(model, LoadOptions(step=step, device="cpu", weights="float32")))
