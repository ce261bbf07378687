"""Untrusted regular expressions: one that could take forever is refused before it is used."""

import json
import re
from dataclasses import dataclass, replace

from glassformer.errors import TokenizerError

# The regex engine gives up after ten million steps at one position of a text, but a text has many. What counts
# is how often a pattern can back up before something that fails: the ways to match one part multiply with the ways to
# match the next. Weights are powers of two; an endless repeat weighs as much as a run of a thousand letters.
REPEAT = 10
MOST_COST = 13  # one endless repeat, and a few choices beside it
MOST_TIMES = 8
MOST_SIZE = 10_000

# Without the x flag: in its comments brackets mean nothing, and a reader that counts them can be led astray.
_GROUP = re.compile(r"\((?:\?(?:#[^)]*|[imdau-]*:|[imdau-]+(?=\))|[=!>]|<[=!]|<\w+>|'\w+'))?")
_CLASS_EDGE = re.compile(r"\\.|\[:\^?\w+:\]|[\[\]]", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:[pPxo]\{[^}]*\}|.)", re.DOTALL)
_RECALL = re.compile(r"\\[1-9gk]")
_LOOKS = ("(?=", "(?!", "(?<")  # these match nothing, and can always fail
_COUNT = re.compile(r"([*+?])[?+]?|\{(\d+)\}\??|\{(\d*),(\d*)\}\??")


class _TooCostlyError(Exception):
    """Why a pattern is refused."""


@dataclass(frozen=True, slots=True)
class _Span:
    """What a stretch of a pattern can do.

    `weight` is in how many ways it can match, `cost` the largest weight before a part of it that can fail,
    `fails` whether it can itself fail, `size` its length when written out.
    """

    weight: int = 0
    cost: int = 0
    fails: bool = False
    size: int = 0

    def then(self, other: "_Span") -> "_Span":
        cost = max(self.cost, other.cost + (self.weight if other.fails else 0))
        return _Span(self.weight + other.weight, cost, self.fails or other.fails, self.size + other.size)

    def times(self, least: int, most: int | None) -> "_Span":
        if self.weight and (most is None or most > MOST_TIMES):
            raise _TooCostlyError("it repeats what can itself match in several ways")
        fails = self.fails and least > 0
        if most is None:
            return _Span(REPEAT, self.cost, fails, self.size * max(least, 1))
        cost = self.cost + (self.weight * max(most - 1, 0) if self.fails else 0)
        return _Span(self.weight * most + max(most - least, 0).bit_length(), cost, fails, self.size * most)


def check_patterns(text: str, name: str) -> None:
    """Raise a `TokenizerError` if this JSON of a tokenizer holds a regular expression that could take forever."""
    for pattern in _patterns(text, name):
        try:
            _, end = _read_choices(pattern, 0)
            if end < len(pattern):
                raise _TooCostlyError("its brackets do not pair")
        except (_TooCostlyError, RecursionError) as error:
            shown = pattern if len(pattern) <= 60 else pattern[:57] + "..."
            raise TokenizerError(f"{name}: the pattern {shown!r} could take forever: {error}") from None


def _patterns(text: str, name: str) -> list[str]:
    found: list[str] = []

    def look(pairs: list[tuple[str, object]]) -> None:
        # Every pair is seen here, also one that a later pair of the same name would hide.
        found.extend(value for key, value in pairs if key == "Regex" and isinstance(value, str))

    try:
        json.loads(text, object_pairs_hook=look)
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{name}: is not JSON: {error}") from None
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
    weight = max(branch.weight for branch in branches) + (len(branches) - 1).bit_length()
    cost, fails = max(branch.cost for branch in branches), all(branch.fails for branch in branches)
    return _Span(weight, cost, fails, sum(branch.size for branch in branches)), at


def _read_part(pattern: str, at: int) -> tuple[_Span, int]:
    """One character, class or group with the counts behind it, and where it ends."""
    if group := _GROUP.match(pattern, at):
        if pattern[group.end() - 1 : group.end() + 1] == "(?":
            raise _TooCostlyError(f"{pattern[at : at + 4]!r} is not known here")
        part, at = _read_choices(pattern, group.end())
        part = replace(part, fails=part.fails or group.group()[:3] in _LOOKS)
        at += 1
    else:
        part, at = _Span(fails=True, size=1), _end_of_character(pattern, at)
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
    if span.cost > MOST_COST:
        raise _TooCostlyError("it has too many repeats or choices in a row before something that may be missing")
    if span.size > MOST_SIZE:
        raise _TooCostlyError(f"written out it is longer than {MOST_SIZE:,} characters")
