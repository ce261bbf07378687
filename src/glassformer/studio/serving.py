"""Serve the page until the user stops it."""

import importlib.util
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from glassformer.errors import MissingExtraError

if TYPE_CHECKING:
    import uvicorn

    from glassformer.studio.sessions import Sessions

NEEDED = ("starlette", "uvicorn", "ziamath")
GRACE = 2  # seconds that open requests have when the server stops


def require_studio() -> None:
    """Raise if a package that the page needs is missing."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(f'Studio needs {", ".join(missing)}: pip install "glassformer[studio]"')


def serve(sessions: "Sessions", listening: socket.socket, say: Callable[[str], None], browser: bool) -> None:
    """Serve until interrupted; the address with its token is said first."""
    server, address = server_on(sessions, listening)
    say(f"Studio is at {address}")
    say("Ctrl-C stops it")
    if browser:
        threading.Timer(0.5, webbrowser.open, (address,)).start()
    server.run([listening])


def server_on(sessions: "Sessions", listening: socket.socket) -> "tuple[uvicorn.Server, str]":
    """A server on a bound socket, and the address to open."""
    import uvicorn  # noqa: PLC0415 - the extra `studio` brings it

    from glassformer.studio.app import studio_app  # noqa: PLC0415
    from glassformer.studio.guard import Access  # noqa: PLC0415

    port = listening.getsockname()[1]
    access = Access.local(port)
    config = uvicorn.Config(
        studio_app(sessions, access),
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=GRACE,
        server_header=False,
    )
    return uvicorn.Server(config), f"http://127.0.0.1:{port}/?token={access.token}"


@contextmanager
def served(sessions: "Sessions") -> Iterator[str]:
    """The address of a server in a thread, while inside; for notebooks and tests."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server, address = server_on(sessions, listening)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        yield address
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
