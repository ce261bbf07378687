"""The errata of the sources: what is printed, what is right, and how that is found by computing."""

from functools import cache
from importlib.resources import files
from typing import Literal, TypeAlias

import msgspec

from glassformer.arithmetic import DIGITS, MOST_DIGITS, digits_apart
from glassformer.course.errata_checks import CHECKED
from glassformer.course.page import value_text
from glassformer.course.walk import Walk


class Erratum(msgspec.Struct, frozen=True, kw_only=True):
    """One erratum: `printed` is what a source says, `right` what it should say, `examples` compute the difference."""

    number: int
    source: str
    where: str
    printed: str
    right: str
    examples: tuple[str, ...]


ErrorKind: TypeAlias = Literal[
    "a number off beyond rounding", "a number rounded badly", "a statement that does not hold"
]


class Finding(msgspec.Struct, frozen=True):
    """What computing says to an erratum: what is off, the printed value, ours, and whether that bears it out."""

    kind: ErrorKind
    printed: str
    computed: str
    holds: bool


@cache
def errata() -> tuple[Erratum, ...]:
    """Every erratum, in the order of their numbers."""
    data = files("glassformer.course").joinpath("errata.json").read_bytes()
    return msgspec.json.decode(data, type=tuple[Erratum, ...])


def findings(walk: Walk, erratum: Erratum) -> list[Finding]:
    """All that is computed for an erratum; nothing for one that is editorial."""
    found = [_against_print(walk, example) for example in erratum.examples]
    if erratum.number in CHECKED:
        found.append(Finding("a statement that does not hold", "", *CHECKED[erratum.number](walk)))
    return [each for each in found if each is not None]


def without_findings(walk: Walk, erratum: Erratum) -> Literal["a fact, not computed", "editorial"]:
    """What an erratum is that nothing computes: a fact that can only be stated, or a matter of editing."""
    stated = any(walk.verdict(example).verdict == "stated" for example in erratum.examples)
    return "a fact, not computed" if stated else "editorial"


def _against_print(walk: Walk, example: str) -> Finding | None:
    """The entry of an example that is farthest from print; nothing where they agree, or where nothing is computed."""
    result = walk.verdict(example)
    entry = result.farthest
    if entry is None or entry.standing == "reproduced" or result.verdict == "stated":
        return None
    if isinstance(entry.value, bool):
        return Finding("a statement that does not hold", "", "what is said does not hold", entry.value != entry.printed)
    kind = "a number rounded badly" if entry.standing == "rounding" else "a number off beyond rounding"
    digits = DIGITS
    if isinstance(entry.printed, (int, float)) and isinstance(entry.value, (int, float)):
        digits = digits_apart(entry.printed, entry.value)
    ours = value_text(entry.value, digits)
    name, printed = entry.name.replace("_", " "), value_text(entry.printed, MOST_DIGITS)
    return Finding(kind, f"{name}: {printed}", f"{name}: {ours}", ours != printed)
