"""Regular expressions from strangers: one that could take forever is refused before any text meets it."""

import json
import re
from dataclasses import dataclass

from glassformer.errors import TokenizerError

# The regex engine gives up after ten million steps at one place of a text, but a text has many places. What counts is
# how often a pattern can back up: the ways to match one part multiply with the ways to match the next.
MOST_REPEATS = 3
MOST_WAYS = 12
MOST_TIMES = 8
MOST_SIZE = 10_000

# Without the x flag: in its comments brackets mean nothing, and a reader that counts them can be led astray.
_GROUP = re.compile(r"\((?:\?(?:#[^)]*|[imdau-]*:|[imdau-]+(?=\))|[=!>]|<[=!]|<\w+>|'\w+'))?")
_CLASS_EDGE = re.compile(r"\\.|\[:\^?\w+:\]|[\[\]]", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:[pPxo]\{[^}]*\}|.)", re.DOTALL)
_RECALL = re.compile(r"\\[1-9gk]")
_COUNT = re.compile(r"([*+?])[?+]?|\{(\d+)\}\??|\{(\d*),(\d*)\}\??")


class _TooCostlyError(Exception):
    """Why a pattern is refused."""


@dataclass(frozen=True, slots=True)
class _Span:
    """What a stretch of a pattern can do: back up in so many ways, repeat without end so often, and its size."""

    ways: int = 0
    repeats: int = 0
    size: int = 0

    def then(self, other: "_Span") -> "_Span":
        return _Span(self.ways + other.ways, self.repeats + other.repeats, self.size + other.size)

    def times(self, least: int, most: int | None) -> "_Span":
        if self.ways and (most is None or most > MOST_TIMES):
            raise _TooCostlyError("it repeats what can itself match in several ways")
        if most is None:
            return _Span(1, 1, self.size * max(least, 1))
        return _Span(self.ways * most + (least != most), self.repeats * most, self.size * most)


def check_patterns(text: str, place: str) -> None:
    """Raise a `TokenizerError` if this JSON of a tokenizer holds a regular expression that could take forever."""
    for pattern in _patterns(text, place):
        try:
            _, end = _read_choices(pattern, 0)
            if end < len(pattern):
                raise _TooCostlyError("its brackets do not pair")
        except (_TooCostlyError, RecursionError) as error:
            shown = pattern if len(pattern) <= 60 else pattern[:57] + "..."
            raise TokenizerError(f"{place}: the pattern {shown!r} could take forever: {error}") from None


def _patterns(text: str, place: str) -> list[str]:
    found: list[str] = []

    def look(pairs: list[tuple[str, object]]) -> None:
        # Every pair is seen here, also one that a later pair of the same name would hide.
        found.extend(value for key, value in pairs if key == "Regex" and isinstance(value, str))

    try:
        json.loads(text, object_pairs_hook=look)
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{place}: is not JSON: {error}") from None
    return found


def _read_choices(pattern: str, at: int) -> tuple[_Span, int]:
    """Alternatives up to a closing bracket or the end, and where they end."""
    branches, span = [], _Span()
    while at < len(pattern) and pattern[at] != ")":
        if pattern[at] == "|":
            branches.append(span)
            span, at = _Span(), at + 1
        else:
            part, at = _read_part(pattern, at)
            span = span.then(part)
            _require_cheap(span)
    branches.append(span)
    ways, repeats = (max(values) for values in zip(*((b.ways, b.repeats) for b in branches), strict=True))
    return _Span(ways + (len(branches) > 1), repeats, sum(branch.size for branch in branches)), at


def _read_part(pattern: str, at: int) -> tuple[_Span, int]:
    """One character, class or group with the counts behind it, and where it ends."""
    if group := _GROUP.match(pattern, at):
        if pattern[group.end() - 1 : group.end() + 1] == "(?":
            raise _TooCostlyError(f"{pattern[at : at + 4]!r} is not known here")
        part, at = _read_choices(pattern, group.end())
        at += 1
    else:
        part, at = _Span(size=1), _end_of_character(pattern, at)
    # A count may follow a count: a{2}+ repeats a pair.
    while count := _COUNT.match(pattern, at):
        sign, exact, least, most = count.groups()
        if sign:
            part = part.times(int(sign == "+"), 1 if sign == "?" else None)
        elif exact:
            part = part.times(int(exact), int(exact))
        else:
            part = part.times(int(least or 0), int(most) if most else None)
        at = count.end()
    return part, at


def _end_of_character(pattern: str, at: int) -> int:
    if _RECALL.match(pattern, at):
        raise _TooCostlyError("it refers back to what it has matched")
    if escape := _ESCAPE.match(pattern, at):
        return escape.end()
    if pattern[at] != "[":
        return at + 1
    # A bracket that closes at once stands for itself, as in []a] and [^]a].
    depth, at = 1, at + 1
    at += pattern.startswith("^", at)
    at += pattern.startswith("]", at)
    while depth and (edge := _CLASS_EDGE.search(pattern, at)):
        depth += {"[": 1, "]": -1}.get(edge.group(), 0)
        at = edge.end()
    return at if not depth else len(pattern)


def _require_cheap(span: _Span) -> None:
    if span.repeats > MOST_REPEATS:
        raise _TooCostlyError(f"it has more than {MOST_REPEATS} endless repeats in a row")
    if span.ways > MOST_WAYS:
        raise _TooCostlyError(f"it has more than {MOST_WAYS} choices in a row")
    if span.size > MOST_SIZE:
        raise _TooCostlyError(f"written out it is longer than {MOST_SIZE:,} characters")
