"""A question and its context as one input of an encoder, in windows where the context is long."""

from collections.abc import Sequence
from dataclasses import dataclass

import tokenizers

from glassformer.errors import TokenizerError
from glassformer.text.tokenizer import Tokenizer, guarded, require_unicode

OVERLAP = 128  # tokens that two windows of a context share, at most; half of a window if that is less
_PROBES = ("a", "1", ".")


@dataclass(frozen=True)
class PairTemplate:
    """The special tokens before, between and after two texts, and the token types of these and of the texts."""

    parts: tuple[tuple[int, ...], ...]
    types: tuple[tuple[int, ...], ...]
    text_types: tuple[int, int]

    @property
    def size(self) -> int:
        """The number of special tokens."""
        return sum(map(len, self.parts))


@dataclass(frozen=True)
class Window:
    """A question with a part of its context; `first` is the position of the first context token.

    `offsets` are the first character of the context that each of its tokens covers, and the one after the last.
    """

    ids: list[int]
    token_types: list[int]
    first: int
    offsets: Sequence[tuple[int, int]]

    def positions(self, start: int, end: int) -> tuple[int, int] | None:
        """The first and the last position of the characters from `start` to `end`, if all of them are in here."""
        inside = [at for at, (left, right) in enumerate(self.offsets) if right > start and left < end]
        if not inside or self.offsets[inside[0]][0] > start or self.offsets[inside[-1]][1] < end:
            return None
        return self.first + inside[0], self.first + inside[-1]

    def characters(self, first: int, last: int) -> tuple[int, int]:
        """The characters of the context from one position to another."""
        return self.offsets[first - self.first][0], self.offsets[last - self.first][1]


def encode_question(
    tokenizer: Tokenizer, question: str, context: str, max_length: int | None = None, token_types: int = 2
) -> list[Window]:
    """The windows of a question and its context, each of at most `max_length` tokens.

    A context that fits is one window. Neighboring windows overlap, so that an answer is whole in one of them.
    `token_types` is how many the model has.
    """
    template, inner = pair_template(tokenizer), tokenizer._inner
    require_question(question, context)
    with guarded("encoding"):
        asked, read = (inner.encode(text, add_special_tokens=False) for text in (question, context))
    room = len(read.ids) if max_length is None else max_length - len(asked.ids) - template.size
    if room < 1 and read.ids:
        size = len(asked.ids) + template.size
        raise TokenizerError(f"the question has {size} tokens, wanted fewer than {max_length}, the longest input")
    step = room - min(OVERLAP, room // 2)
    starts = range(0, max(len(read.ids) - room, 0) + step, max(step, 1))
    last = max(token_types, 1) - 1

    def window(at: int) -> Window:
        texts = asked.ids, read.ids[at : at + room]
        ids, types = list(template.parts[0]), list(template.types[0])
        for side, text in enumerate(texts):
            ids += [*text, *template.parts[side + 1]]
            types += [*[template.text_types[side]] * len(text), *template.types[side + 1]]
        first = len(template.parts[0]) + len(asked.ids) + len(template.parts[1])
        return Window(ids, [min(kind, last) for kind in types], first, read.offsets[at : at + room])

    return [window(at) for at in starts]


def require_question(question: str, context: str) -> None:
    """Raise on a question or a context without text."""
    for name, text in (("the question", question), ("the context", context)):
        require_unicode(text, name)
        if not text.strip():
            raise TokenizerError(f"{name} is empty, wanted a text")


def pair_template(tokenizer: Tokenizer) -> PairTemplate:
    """What a tokenizer puts around a question and its context, found by encoding two texts."""
    inner = tokenizer._inner
    for probe in _PROBES:
        with guarded("encoding"):
            found = inner.encode(probe, probe, add_special_tokens=True)
        if {0, 1} <= set(found.sequence_ids):
            return _template(found)
    raise TokenizerError("the tokenizer has no token for a letter, a digit or a full stop, so it cannot read a pair")


def _template(found: tokenizers.Encoding) -> PairTemplate:
    where = found.sequence_ids
    first, second = where.index(0), where.index(1)
    ends = [len(where) - 1 - where[::-1].index(text) + 1 for text in (0, 1)]
    cuts = (slice(0, first), slice(ends[0], second), slice(ends[1], len(where)))
    return PairTemplate(
        parts=tuple(tuple(found.ids[cut]) for cut in cuts),
        types=tuple(tuple(found.type_ids[cut]) for cut in cuts),
        text_types=(found.type_ids[first], found.type_ids[second]),
    )
