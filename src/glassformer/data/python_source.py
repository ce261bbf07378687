"""The source text of Python's own standard library: a corpus that is wherever Python is."""

import sysconfig
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

from glassformer.data.files import Document, LabeledText
from glassformer.errors import DataError

# The classes of the built-in classification data: packages of some size that every Python has.
PACKAGES = ("asyncio", "email", "http", "importlib", "logging", "multiprocessing", "unittest", "xml")
SNIPPET = 8  # lines

# Packages of others, tests, and files about the machine that built this Python.
_LEFT_OUT = {"site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test"}
_BUILD = ("config-", "_sysconfigdata")


def stdlib_text() -> Iterator[Document]:
    """The modules of the running Python's standard library, one document each, ordered by path; tests left out."""
    root = Path(sysconfig.get_path("stdlib"))
    found = False
    for name in sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py")):
        parts = name.split("/")
        if _LEFT_OUT.intersection(parts) or parts[0].startswith(_BUILD):
            continue
        text = _source(root / name)
        if text.strip():
            yield Document(text, name)
            found = True
    if not found:
        raise DataError(f"{root}: this Python has no source text of its standard library")


def stdlib_labeled(packages: Sequence[str] = PACKAGES) -> list[LabeledText]:
    """Snippets of a few lines, each labeled by the top-level package of the standard library it comes from."""
    found = [
        LabeledText(document.source.partition("/")[0], snippet, f"{document.source}:{line}")
        for document in stdlib_text()
        if "/" in document.source and document.source.partition("/")[0] in packages
        for line, snippet in _snippets(document.text)
    ]
    missing = set(packages) - {snippet.label for snippet in found}
    if missing:
        raise DataError(f"the standard library has no package {', '.join(sorted(missing))}")
    return found


def _snippets(text: str) -> Iterator[tuple[int, str]]:
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    for at in range(0, len(lines) - SNIPPET + 1, SNIPPET):
        yield lines[at][0], "\n".join(line for _, line in lines[at : at + SNIPPET])


def _source(path: Path) -> str:
    try:
        with tokenize.open(path) as file:  # minds the encoding that a module declares
            return file.read()
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
