"""Boxes joined by arrows, drawn in characters: each arrow bears the shape of what it carries."""

from collections.abc import Sequence

from glassformer.course.page import Drawing, Page

BOX_WIDTH = 25  # characters of a box; odd, so that it has a middle


def draw(page: Page, lines: Sequence[str]) -> None:
    """Add a picture made of characters to a page."""
    page.parts.append(Drawing(tuple(lines)))


def flow_column(first: str, stations: Sequence[tuple[str, str]], last: tuple[str, str]) -> list[str]:
    """Boxes under each other; each arrow bears the shape of what it carries, every line equally wide."""
    half = (BOX_WIDTH - 1) // 2
    edge = "─" * (half - 1)
    lines = [first.center(BOX_WIDTH)]
    for shape, name in stations:
        lines += [_arrow(shape), f"┌{edge}┴{edge}┐", f"│{name.center(BOX_WIDTH - 2)}│", f"└{edge}┬{edge}┘"]
    return [*lines, _arrow(last[0]), last[1].center(BOX_WIDTH)]


def _arrow(shape: str) -> str:
    return f"{'│'.rjust((BOX_WIDTH + 1) // 2)} {shape}".ljust(BOX_WIDTH)
