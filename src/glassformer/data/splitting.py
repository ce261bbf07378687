"""Divide data into what is learnt from and what is held out, with no exact duplicate on both sides."""

import hashlib
from collections.abc import Hashable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from jaxtyping import Int64, Integer

from glassformer.data.files import LabelledText
from glassformer.errors import DataError

T = TypeVar("T", bound=Hashable)
S = TypeVar("S")
Places = list[int]  # where the copies of one item stand
_PORTION = 2**24  # tokens that are searched at once


def split(items: Sequence[T], share: float, seed: int) -> tuple[list[T], list[T]]:
    """Items to learn from and items held out, a `share` of them picked by chance, both in the order they had.

    Copies of an item stay on one side.
    """
    return _divided(items, _held_places(items, [""] * len(items), share, seed))


def split_labelled(
    texts: Sequence[LabelledText], share: float, seed: int
) -> tuple[list[LabelledText], list[LabelledText]]:
    """The same for labelled texts, stratified: of each class the same share, and never all of it."""
    held = _held_places([text.text for text in texts], [text.label for text in texts], share, seed)
    return _divided(texts, held)


def split_tokens(
    tokens: Integer[np.ndarray, " tokens"], share: float, end: int | None = None
) -> tuple[Integer[np.ndarray, " rest"], Integer[np.ndarray, " held"]]:
    """Ids to learn from and ids held out: the end of the corpus, since windows cut at random would share text.

    `end` is the token that closes a document. Documents that are held out and stand in the rest as well are
    left out of the rest.
    """
    cut = len(tokens) - _count_held_out(len(tokens), share, "tokens")
    rest = tokens[:cut]
    if end is not None and (copies := _copies(tokens, cut, end)):
        rest = np.delete(rest, np.concatenate(copies))
    return rest, tokens[cut:]


def _divided(items: Sequence[S], held: set[int]) -> tuple[list[S], list[S]]:
    rest = [item for place, item in enumerate(items) if place not in held]
    return rest, [item for place, item in enumerate(items) if place in held]


def _held_places(contents: Sequence[Hashable], labels: Sequence[str], share: float, seed: int) -> set[int]:
    """The places of what is held out: whole groups of copies, as many as fit into the share."""
    wanted = _count_held_out(len(contents), share, "items")
    copies: dict[Hashable, Places] = {}
    for place, content in enumerate(contents):
        copies.setdefault(content, []).append(place)
    turns = list(_in_turn(list(copies.values()), labels, seed))
    if not turns:
        raise DataError(
            "nothing can be held out: every class has a single distinct text; add more, or name data.validation"
        )
    held: set[int] = set()
    for group in turns:
        if len(held) + len(group) <= wanted:
            held.update(group)
    return held or set(min(turns, key=len))


def _in_turn(groups: Sequence[Places], labels: Sequence[str], seed: int) -> Iterator[Places]:
    """Groups in the order in which they are held out; the last of each class is left to be learnt from.

    Each class is spread evenly over the order, so that any beginning of it has the same share of every class.
    """
    classes: dict[frozenset[str], list[Places]] = {}  # copies may be labelled differently: those are a class too
    for group in groups:
        classes.setdefault(frozenset(labels[place] for place in group), []).append(group)
    ranked: list[tuple[float, Places]] = []
    for members in classes.values():
        order = sorted(members, key=lambda group: _hash_bytes(f"{seed} {group[0]}"))
        start = int.from_bytes(_hash_bytes(f"{seed} class {members[0][0]}")[:6], "big") / 2**48
        ranked += [((at + start) / len(order), group) for at, group in enumerate(order[:-1])]
    return (group for _, group in sorted(ranked))


def _hash_bytes(text: str) -> bytes:
    """Random bytes from a hash, not a generator: what was held out once is held out with every version of a library."""
    return hashlib.sha256(text.encode()).digest()


def _copies(tokens: Integer[np.ndarray, " tokens"], cut: int, end: int) -> list[Int64[np.ndarray, " _"]]:
    """Places before the cut of each document that is a copy of one that reaches beyond it."""
    bounds = _document_bounds(tokens, end)
    first = int(np.searchsorted(bounds, cut, side="right")) - 1  # the first document that reaches beyond the cut
    held = {tokens[start:stop].tobytes() for start, stop in zip(bounds[first:-1], bounds[first + 1 :], strict=True)}
    lengths = np.diff(bounds)
    alike = np.flatnonzero(np.isin(lengths[:first], lengths[first:]))
    places = [(bounds[number], bounds[number + 1]) for number in alike]
    return [np.arange(start, stop) for start, stop in places if tokens[start:stop].tobytes() in held]


def _document_bounds(tokens: Integer[np.ndarray, " tokens"], end: int) -> Int64[np.ndarray, " bounds"]:
    portions = range(0, len(tokens), _PORTION)
    ends = [np.flatnonzero(tokens[at : at + _PORTION] == end) + at + 1 for at in portions]
    return np.unique(np.concatenate([[0], *ends, [len(tokens)]]).astype(np.int64))


def _count_held_out(count: int, share: float, of: str) -> int:
    if not 0 < share < 1:
        raise DataError(f"share is {share}, wanted between 0 and 1")
    if count < 2:
        raise DataError(f"{count} {of} cannot be split in two")
    return min(max(round(share * count), 1), count - 1)
