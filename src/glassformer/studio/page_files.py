"""The files of the page: its frame, its modules, its style and the mathematics font."""

import secrets
from functools import cache
from importlib import resources

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.views.bundle import font_bytes

FOLDERS = ("glassformer.views.web", "glassformer.studio.web")
KINDS = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}


@cache
def files() -> dict[str, bytes]:
    """Modules and styles by name."""
    found: dict[str, bytes] = {}
    for folder in FOLDERS:
        package, _, name = folder.rpartition(".")
        for file in (resources.files(package) / name).iterdir():
            if file.name.endswith(tuple(KINDS)):
                found[file.name] = file.read_bytes()
    return found


def page(_request: Request) -> Response:
    """The frame of the page, with an import map for its modules."""
    nonce = secrets.token_urlsafe(16)
    imports = {f"glassformer/{name}": f"/web/{name}" for name in sorted(files()) if name.endswith(".js")}
    frame = (resources.files("glassformer.studio") / "web" / "index.html").read_text(encoding="utf-8")
    body = frame.replace("NONCE", nonce).replace("IMPORT_MAP", msgspec.json.encode({"imports": imports}).decode())
    policy = (
        f"default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self'; font-src 'self'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Response(body, media_type="text/html", headers={"content-security-policy": policy})


def web_file(request: Request) -> Response:
    """A module or a style by its name."""
    name = request.path_params["name"]
    if name not in files():
        return Response("there is no such file", 404, media_type="text/plain")
    kind = KINDS[name[name.rindex(".") :]]
    return Response(files()[name], headers={"content-type": kind, "cache-control": "no-cache"})


def font(_request: Request) -> Response:
    """The mathematics font; where it is missing, the page uses one of the system."""
    found = font_bytes()
    if found is None:
        return Response("the font is not installed", 404, media_type="text/plain")
    return Response(found, media_type="font/ttf", headers={"cache-control": "max-age=86400"})


def no_icon(_request: Request) -> Response:
    """No icon."""
    return Response(status_code=204)


routes = [Route("/", page), Route("/web/{name}", web_file), Route("/font", font), Route("/favicon.ico", no_icon)]
