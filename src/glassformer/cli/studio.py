"""`glassformer studio`: a local page that shows how a model computes, learns and translates."""

import socket
from typing import TYPE_CHECKING

from glassformer.cli.named_model import LoadOptions, ModelName, load_named
from glassformer.cli.report import Flag, RunStep, UsageError, talk

if TYPE_CHECKING:
    from glassformer.studio.sessions import Sessions

HIGHEST_PORT = 65_535


def studio(model: ModelName | None = None, /, *, port: int = 8765, browser: Flag = False, step: RunStep = None) -> None:
    """Open a page on this machine that shows every number of a model beside the equation that made it.

    Parameters
    ----------
    port
        Port of the page on this machine; 0 takes any free one.
    browser
        Open the page in the browser.
    """
    if not 0 <= port <= HIGHEST_PORT:
        raise UsageError(f"--port is {port}, wanted 0 to {HIGHEST_PORT:,}")
    from glassformer.studio.serving import require_studio

    require_studio()
    listening = _listen(port)
    from glassformer.studio.serving import serve
    from glassformer.studio.sessions import Sessions

    sessions = Sessions()
    _add_model(sessions, model, step)
    serve(sessions, listening, talk, browser)


def _listen(port: int) -> socket.socket:
    """A socket on this machine alone, or an error that names the port."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", port))
    except OSError as error:
        found.close()
        raise UsageError(f"port {port} cannot be used ({error.strerror}): choose another with --port") from None
    return found


def _add_model(sessions: "Sessions", model: str | None, step: int | None) -> None:
    if model is None:
        raise UsageError("give the folder of a model")
    sessions.add_model(model, load_named(model, LoadOptions(step=step, device="cpu", weights="float32")))
