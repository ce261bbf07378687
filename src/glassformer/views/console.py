"""Text for a terminal, with control characters escaped, so that no model or file can control the terminal."""

import re
from collections.abc import Iterable
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

# C0 and C1 controls and DEL, bidirectional embeddings, overrides and isolates, and lone surrogates, which no stream
# can encode; not line feeds and tabs.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BREAKS = re.compile("[\t\n\u2028\u2029]")
ASCII = 0x80


def escaped(text: str) -> str:
    """Text with control characters and bidirectional overrides as visible escapes; line feeds and tabs stay."""
    return _CONTROLS.sub(_escape, text)


def escaped_line(text: str) -> str:
    """The same on one line: line feeds and tabs are escaped too."""
    return _BREAKS.sub(_escape, escaped(text))


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if ord(character) < ASCII:
        return character.encode("unicode_escape").decode()
    return f"\\u{ord(character):04x}"  # the form that JSON has too, which leaves these characters raw


class SafeConsole(Console):
    """A rich console that keeps styles and escapes the control characters of the text it shows."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of a renderable; the cursor movements of rich itself stay."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escaped(segment.text), segment.style)

    @property
    def file(self) -> IO[str]:
        """The stream to write to: the one behind an escaping stream, since this console escapes too."""
        file = super().file
        return getattr(file, "unescaped", file)

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file
