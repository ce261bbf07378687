"""Serve the page until the user stops it."""

import importlib.util
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from glassformer.errors import MissingExtraError

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

NEEDED = ("starlette", "uvicorn", "ziamath")
GRACE = 2  # seconds that open requests have when the server stops


def require_studio() -> None:
    """Raise if a package that the page needs is missing."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(f'Studio needs {", ".join(missing)}: pip install "glassformer[studio]"')


def listen(port: int) -> socket.socket:
    """A socket on this machine alone; 0 is any free port."""
    # Its protocol is named: else asyncio would not let small answers go at once.
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", port))
        found.listen()  # whoever comes before the server is ready waits
    except OSError:
        found.close()
        raise
    return found


def serve(app: "ASGIApp", listening: socket.socket) -> None:
    """Serve until interrupted."""
    _server(app).run([listening])


@contextmanager
def served(app: "ASGIApp", listening: socket.socket) -> Iterator[None]:
    """Serve in a thread while inside."""
    server = _server(app)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def _server(app: "ASGIApp") -> "uvicorn.Server":
    import uvicorn  # noqa: PLC0415 - the extra `studio` brings it

    how = {"log_level": "critical", "access_log": False, "lifespan": "off", "server_header": False}
    return uvicorn.Server(uvicorn.Config(app, timeout_graceful_shutdown=GRACE, **how))
