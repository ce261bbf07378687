"""Cut a corpus into parts that can be encoded one after another, without a trace of the cuts in the tokens."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

PORTION = 500_000  # characters encoded at a time when a whole corpus is
CONTEXT = 1000  # characters of a text that are read again before its next part


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text, some of the text before it, and whether the text begins and ends here."""

    context: str
    text: str
    is_first: bool
    is_last: bool


def pieces(text: str) -> Iterator[str]:
    """A text in pieces of at most a portion, cut in front of white space, where tokens seldom reach across."""
    start = 0
    while len(text) - start > PORTION:
        end = _border(text, start)
        yield text[start:end]
        start = end
    yield text[start:]


def _border(text: str, start: int) -> int:
    """Where the piece from `start` on ends: in front of a line break, or of a space, or where it is long enough."""
    for mark in ("\n", " "):
        border = text.rfind(mark, start + 1, start + PORTION)
        while border > start and text[border - 1].isspace():
            border -= 1
        if border > start:
            return border
    return start + PORTION


def portions(texts: Iterable[str]) -> Iterator[list[TextPart]]:
    """The parts of all texts, in lists of about a portion."""
    batch: list[TextPart] = []
    characters = 0
    for text in texts:
        start = 0
        for piece in pieces(text):
            end = start + len(piece)
            batch.append(TextPart(text[max(start - CONTEXT, 0) : start], piece, start == 0, end == len(text)))
            start = end
            characters += len(piece)
            if characters >= PORTION:
                yield batch
                batch, characters = [], 0
    if batch:
        yield batch


def batches_by_characters(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """The texts in lists of about a portion, none of them cut."""
    first = characters = 0
    for number, text in enumerate(texts):
        if characters + len(text) > PORTION and number > first:
            yield texts[first:number]
            first, characters = number, 0
        characters += len(text)
    if first < len(texts):
        yield texts[first:]
