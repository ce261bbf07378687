"""Split data into training and validation data, with no exact duplicate on both sides."""

import hashlib
from collections.abc import Hashable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from jaxtyping import Int64, Integer

from glassformer.data.files import LabeledText
from glassformer.errors import DataError

T = TypeVar("T", bound=Hashable)
S = TypeVar("S")
Copies = list[int]  # indices of the copies of one item
_PORTION = 2**24  # tokens that are searched at once


def split(items: Sequence[T], fraction: float, seed: int) -> tuple[list[T], list[T]]:
    """Items for training and, chosen at random, a fraction of them for validation, both in the order of the data.

    Copies of an item stay on one side.
    """
    return _divided(items, split_indices(items, [""] * len(items), fraction, seed))


def split_labeled(
    texts: Sequence[LabeledText], fraction: float, seed: int
) -> tuple[list[LabeledText], list[LabeledText]]:
    """The same for labeled texts, stratified: the same fraction of every class, and never all of it."""
    contents, labels = [text.text for text in texts], [text.label for text in texts]
    return _divided(texts, split_indices(contents, labels, fraction, seed))


def split_tokens(
    tokens: Integer[np.ndarray, " tokens"], fraction: float, end: int | None = None
) -> tuple[Integer[np.ndarray, " train"], Integer[np.ndarray, " validation"]]:
    """Ids for training, and the end of the corpus for validation, since windows chosen at random would share text.

    `end` is the token that ends a document. Copies of validation documents are left out of the training ids.
    """
    cut = len(tokens) - _validation_count(len(tokens), fraction, "tokens")
    train = tokens[:cut]
    if end is not None and (copies := _copies(tokens, cut, end)):
        train = np.delete(train, np.concatenate(copies))
    return train, tokens[cut:]


def _divided(items: Sequence[S], validation: set[int]) -> tuple[list[S], list[S]]:
    train = [item for index, item in enumerate(items) if index not in validation]
    return train, [item for index, item in enumerate(items) if index in validation]


def split_indices(contents: Sequence[Hashable], labels: Sequence[str], fraction: float, seed: int) -> set[int]:
    """The indices of the validation items: whole groups of copies, as many as fit into the fraction."""
    wanted = _validation_count(len(contents), fraction, "items")
    copies: dict[Hashable, Copies] = {}
    for index, content in enumerate(contents):
        copies.setdefault(content, []).append(index)
    groups = list(_in_turn(list(copies.values()), labels, seed))
    if not groups:
        swapped = ", or label and text are swapped (data.fields names the columns)" if len(set(labels)) > 1 else ""
        why = f"every class has a single distinct text; add more, name data.validation{swapped}"
        raise DataError(f"no text can be used for validation: {why}")
    found: set[int] = set()
    for group in groups:
        if len(found) + len(group) <= wanted:
            found.update(group)
    return found or set(min(groups, key=len))


def _in_turn(groups: Sequence[Copies], labels: Sequence[str], seed: int) -> Iterator[Copies]:
    """Groups in the order in which they become validation data; the last of each class is left for training.

    Each class is spread evenly over the order, so that any prefix of it has the same fraction of every class.
    """
    classes: dict[frozenset[str], list[Copies]] = {}  # copies with different labels are a class of their own
    for group in groups:
        classes.setdefault(frozenset(labels[index] for index in group), []).append(group)
    ranked: list[tuple[float, Copies]] = []
    for members in classes.values():
        order = sorted(members, key=lambda group: _hash_bytes(f"{seed} {group[0]}"))
        start = int.from_bytes(_hash_bytes(f"{seed} class {members[0][0]}")[:6], "big") / 2**48
        ranked += [((at + start) / len(order), group) for at, group in enumerate(order[:-1])]
    return (group for _, group in sorted(ranked))


def _hash_bytes(text: str) -> bytes:
    """Random bytes from a hash, not a generator, so that every version of a library splits the same way."""
    return hashlib.sha256(text.encode()).digest()


def _copies(tokens: Integer[np.ndarray, " tokens"], cut: int, end: int) -> list[Int64[np.ndarray, " _"]]:
    """Indices before the cut of each document that is a copy of one that reaches beyond it."""
    portions = range(0, len(tokens), _PORTION)
    ends = [np.flatnonzero(tokens[at : at + _PORTION] == end) + at + 1 for at in portions]
    bounds = np.unique(np.concatenate([[0], *ends, [len(tokens)]]).astype(np.int64))  # of the documents
    first = int(np.searchsorted(bounds, cut, side="right")) - 1  # the first document that reaches beyond the cut
    beyond = {tokens[start:stop].tobytes() for start, stop in zip(bounds[first:-1], bounds[first + 1 :], strict=True)}
    lengths = np.diff(bounds)
    alike = np.flatnonzero(np.isin(lengths[:first], lengths[first:]))
    spans = [(bounds[number], bounds[number + 1]) for number in alike]
    return [np.arange(start, stop) for start, stop in spans if tokens[start:stop].tobytes() in beyond]


def _validation_count(count: int, fraction: float, of: str) -> int:
    if not 0 < fraction < 1:
        raise DataError(f"fraction is {fraction}, wanted between 0 and 1")
    if count < 2:
        raise DataError(f"{count} {of} cannot be split in two")
    return min(max(round(fraction * count), 1), count - 1)
