"""One HTML file out of the modules of the pages: no server, no other file, nothing fetched."""

import base64
import gzip
import hashlib
import html
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import msgspec

NAMESPACE = "glassformer/"  # before the name of a module where another imports it
_IMPORTED = re.compile(rf'^(?:import|export)\b[^"]*"{NAMESPACE}([\w.]+)"', re.MULTILINE)
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_SECTION = re.compile(r"^/\* == (\w+) == .*?\*/$", re.MULTILINE)
_FONT_FACE = re.compile(r"@font-face\s*{[^}]*}\s*")
SECTIONS = ("variables", "base", "shell", "exported")  # of the style, in every page
NOTEBOOK_METHOD = "_repr_html_"  # which Jupyter calls to show an object
FONT = "STIXTwoMath-Regular.ttf"


def document(title: str, body: str, entry: str | None, blocks: Mapping[str, bytes], kind: str = "exported") -> str:
    """A page with this body, HTML already, that runs the module `entry` on blocks of data by the id of their element.

    Its content policy names what is inside by hash, and lets it fetch nothing. `kind` is the class of the page.
    """
    style, scripts = style_sheet(entry), {} if entry is None else _scripts(entry)
    styles = " ".join(map(_hash, dict.fromkeys([style, *_STYLE.findall(body)])))
    if ' style="' in body:  # tables in MathML are aligned by such attributes
        styles = "'unsafe-inline'"
    allowed = " ".join(["data:", *map(_hash, scripts.values())]) if scripts else "'none'"
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src {styles}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    data = "".join(
        f'<script type="text/plain" id="{name}">{packed(block)}</script>\n' for name, block in blocks.items()
    )
    run = "".join(f'<script type="{role}">{text}</script>\n' for role, text in scripts.items())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="glassformer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<title>{html.escape(title)}</title>
<style>{style}</style>
</head>
<body class="{kind}">
{body}
{data}{run}</body>
</html>
"""


def frame(page: str, title: str, height: int) -> str:
    """A page in an iframe of its own, apart from the notebook around it: it can run scripts, and nothing else."""
    inner = html.escape(page, quote=True)
    style = f"width: 100%; height: {height}px; border: 0"
    return f'<iframe sandbox="allow-scripts" srcdoc="{inner}" title="{html.escape(title)}" style="{style}"></iframe>'


def packed(block: bytes) -> str:
    """Bytes as text for a page: gzip in base64."""
    return base64.b64encode(gzip.compress(block, 6, mtime=0)).decode()


@cache
def style_sheet(entry: str | None) -> str:
    """The style of a page: the sections that every page has, and those of its modules; the font it loads by itself."""
    modules = {} if entry is None else _import_map(entry)
    wanted = {*SECTIONS, *(name.removeprefix(NAMESPACE).removesuffix(".js") for name in modules)}
    sections = _SECTION.split(_web_file("page.css"))[1:]
    kept = [text for name, text in zip(sections[::2], sections[1::2], strict=True) if name in wanted]
    return _FONT_FACE.sub("", "".join(kept))


@cache
def font_bytes() -> bytes | None:
    """The mathematics font out of ziamath, which need not be imported for it, or None where it is not installed."""
    found = find_spec("ziamath")
    folders = [] if found is None else found.submodule_search_locations or []
    return next((Path(folder, "fonts", FONT).read_bytes() for folder in folders), None)


def _scripts(entry: str) -> dict[str, str]:
    """The scripts of a page by their type: where modules are, and which one to run."""
    imports = msgspec.json.encode({"imports": _import_map(entry)}).decode()
    return {"importmap": imports, "module": f'import "{NAMESPACE}{entry}";'}


@cache
def _import_map(entry: str) -> dict[str, str]:
    """A module and everything it imports, each as a `data:` address."""
    found: dict[str, str] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if NAMESPACE + name in found:
            continue
        source = _web_file(name)
        found[NAMESPACE + name] = "data:text/javascript;base64," + base64.b64encode(source.encode()).decode()
        waiting += _IMPORTED.findall(source)
    return dict(sorted(found.items()))


@cache
def _web_file(name: str) -> str:
    return (resources.files("glassformer.views") / "web" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
