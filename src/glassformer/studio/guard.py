"""What a request must have before it is answered: this machine's name, this page's origin, the token, a small body."""

import secrets
from dataclasses import dataclass, field
from http import HTTPStatus

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_LIMIT = 1_000_000  # bytes
MOST_OPEN = 100  # requests at once
TOO_LARGE = f"the body is over {BODY_LIMIT:,} bytes"
TOKEN_HEADER = "x-glassformer-token"
OPEN_PATHS = ("/", "/health", "/font", "/favicon.ico")
OPEN_FOLDERS = ("/web/", "/lessons/")  # like the paths above they hold no data of the user
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Access:
    """Access from this machine alone, to those who have the token, which the address of the page carries."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(16))

    @property
    def hosts(self) -> frozenset[str]:
        """The names of this machine, with the port."""
        return frozenset(f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]"))

    @property
    def address(self) -> str:
        """The address to open."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def fault(self, path: str, headers: Headers) -> str | None:
        """What is wrong with a request, or None."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self.hosts:
            return "this page is opened under another name than that of this machine"
        if origin is not None and origin.removeprefix("http://") not in self.hosts:
            return "the request comes from another page"
        open_to_all = path in OPEN_PATHS or path.startswith(OPEN_FOLDERS)
        if not open_to_all and not secrets.compare_digest(headers.get(TOKEN_HEADER, "").encode(), self.token.encode()):
            return "the token is missing or wrong: open the address that `glassformer studio` printed"
        return None


class Guard:
    """Refuses requests that did not come from the page, too many at once and large bodies; adds headers of safety."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        if fault := self.access.fault(scope["path"], headers):
            await _refuse(guarded, HTTPStatus.FORBIDDEN, fault)
        elif _length(headers) > BODY_LIMIT:
            await _refuse(guarded, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, TOO_LARGE)
        elif self._open >= MOST_OPEN:
            text = f"{MOST_OPEN} requests are being answered already: wait a moment"
            await _refuse(guarded, HTTPStatus.TOO_MANY_REQUESTS, text)
        else:
            self._open += 1
            try:
                await self.app(scope, receive, guarded)
            finally:
                self._open -= 1


def _length(headers: Headers) -> int:
    given = headers.get("content-length", "0")
    return int(given) if given.isdecimal() else BODY_LIMIT + 1


async def _refuse(send: Send, status: HTTPStatus, text: str) -> None:
    body = msgspec.json.encode({"error": text})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
    await send({"type": "http.response.body", "body": body})
