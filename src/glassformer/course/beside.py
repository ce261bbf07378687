"""Our numbers beside those in print: as many digits as print has, and a mark on the numbers in print that are wrong."""

from collections.abc import Iterator
from decimal import Decimal

from glassformer.arithmetic import MINUS, number
from glassformer.course.page import BesideRow, InPrint, value_text
from glassformer.course.worked.comparing import Compared, entries_beside

MOST_PRINTED = 15  # digits of a number in print, which are all shown
SMALL_TABLE = 4  # numbers in which one that has more decimals than the rest may be no exception


def rows_beside(key: str, ours: object, printed: object, decimals: int | None) -> Iterator[BesideRow]:
    """A line for each row of a table; `decimals` are those of the table in print, none for a round figure."""
    found = sorted(_decimals(value) for value in _numbers_in(printed))
    # One number that is given more exactly than all others does not make the others wrong.
    if decimals is not None and len(found) > SMALL_TABLE:
        decimals = min(decimals, found[-2])
    yield from _beside_rows(key, ours, printed, decimals)


def _beside_rows(key: str, ours: object, printed: object, decimals: int | None) -> Iterator[BesideRow]:
    if isinstance(ours, list) and ours and isinstance(ours[0], list):
        rows = printed if isinstance(printed, list) and len(printed) == len(ours) else [None] * len(ours)
        for i, (row, other) in enumerate(zip(ours, rows, strict=True)):
            yield from _beside_rows(f"{key}[{i}]", row, other, decimals)
    elif printed is None:
        yield BesideRow(key, value_text(ours))
    else:
        entries = entries_beside(key, printed, ours, decimals)
        listed = isinstance(ours, list) and len(entries) == len(ours)
        right = ", ".join(_rounded_alike(entry, decimals) for entry in entries)
        texts = [_printed(entry.printed, listed) for entry in entries]
        wrong = [entry.standing == "corrected" for entry in entries]
        shown = tuple(map(InPrint, texts, wrong))
        yield BesideRow(key, f"[{right}]" if listed else right, shown, listed)


def _rounded_alike(entry: Compared, decimals: int | None) -> str:
    """Our number with as many decimals as the one in print."""
    ours, printed = entry.value, entry.printed
    if isinstance(ours, bool) or not isinstance(ours, (int, float)) or not isinstance(printed, (int, float)):
        return value_text(ours)
    if decimals is None:
        return value_text(ours)
    least = _decimals(printed)
    text = f"{ours:.{max(decimals, least)}f}"
    while text.endswith("0") and len(text.partition(".")[2]) > least:
        text = text[:-1].removesuffix(".")
    return text.replace("-", MINUS) if float(text) else text.removeprefix("-")


def _numbers_in(printed: object) -> Iterator[float]:
    if isinstance(printed, list):
        for item in printed:
            yield from _numbers_in(item)
    elif isinstance(printed, (int, float)) and not isinstance(printed, bool):
        yield printed


def _decimals(printed: float) -> int:
    exponent = Decimal(repr(printed)).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _printed(value: object, listed: bool) -> str:
    if isinstance(value, float):
        return number(value, MOST_PRINTED)
    return value_text([value])[1:-1] if listed else value_text(value)
