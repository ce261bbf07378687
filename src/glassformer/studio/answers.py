"""Answers of the server: JSON, and errors of the library in words."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from glassformer.errors import GlassformerError
from glassformer.studio.faults import UnknownRunError
from glassformer.studio.guard import BODY_LIMIT, TOO_LARGE

if TYPE_CHECKING:
    from glassformer.studio.sessions import KeptRun, Sessions

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


def answer(value: object, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


async def fault(_request: Request, error: Exception) -> Response:
    """An error of the library, or of reading a request, as JSON with its text."""
    return answer({"error": str(error)}, 404 if isinstance(error, UnknownRunError) else 400)


def sessions_of(request: Request) -> "Sessions":
    """The store of models and runs."""
    return request.app.state.sessions


async def read_body(request: Request, kind: type[S]) -> S:
    """The body of a request, or an error that says what is wrong with it."""
    return msgspec.json.decode(await read_bytes(request), type=kind)


async def read_bytes(request: Request) -> bytes:
    """The body of a request as it is, or an error where it is too large."""
    body = bytearray()
    async for chunk in request.stream():  # its length need not be said
        body += chunk
        if len(body) > BODY_LIMIT:
            raise GlassformerError(TOO_LARGE)
    return bytes(body)


def whole_numbers(request: Request, name: str) -> tuple[int, ...]:
    """A parameter such as `index=0,0,6,4` of the address."""
    words = [word for word in request.query_params.get(name, "").split(",") if word]
    if not all(word.removeprefix("-").isdecimal() for word in words):
        raise GlassformerError(f"{name} is {request.query_params[name]!r}, wanted whole numbers such as 0,0,6,4")
    return tuple(map(int, words))


def whole_number(request: Request, name: str, default: int) -> int:
    """A parameter of the address that is one whole number."""
    return (*whole_numbers(request, name), default)[0]


async def on_run(request: Request, compute: "Callable[[KeptRun], T]") -> T:
    """Compute on the run that the path names, in a thread, while nobody else does."""

    def locked() -> T:
        kept = sessions_of(request).run(request.path_params["id"])
        with kept.lock:
            return compute(kept)

    return await run_in_threadpool(locked)
