"""Hints about data that can be trained on and probably should not: each is one sentence."""

from collections.abc import Hashable, Iterator, Sequence
from itertools import islice

from glassformer.data.files import Document, LabeledText

FEW = 20  # examples or fewer are tiny data
FEW_TOKENS = 1000
MANY_COPIES = 0.1  # of the examples
MANY_UNKNOWN = 0.01  # of the tokens
LINES = 100_000  # of running text that are looked at
LONG_LINE = 20  # characters: shorter lines, such as brackets, repeat in any text
SOURCES = frozenset({"source", "src", "input"})
TARGETS = frozenset({"target", "tgt", "trg", "output", "translation"})
HEADERS = SOURCES | TARGETS | {"en", "english", "de", "german", "es", "spanish", "fr", "french", "it", "italian"}


def example_hints(train: Sequence[Hashable], validation: Sequence[Hashable], what: str) -> Iterator[str]:
    """Hints about examples of any kind: too few, copies, and validation data that is trained on."""
    if len(train) <= FEW:
        yield f"only {len(train)} training {what}: the model will memorize them and learn little else"
    copies = len(train) - len(set(train))
    if copies > MANY_COPIES * len(train):
        yield f"{copies:,} of {len(train):,} training {what} are duplicates of others"
    shared = len(set(validation) & set(train))
    if shared:
        why = "the validation loss will look better than it is"
        yield f"{shared:,} of {len(set(validation)):,} validation {what} are in the training data too: {why}"


def label_hints(train: Sequence[LabeledText], validation: Sequence[LabeledText]) -> Iterator[str]:
    """Hints about labeled texts."""
    labels, texts = {text.label for text in train}, {text.text for text in train}
    lengths = [sum(map(len, values)) / max(len(values), 1) for values in (labels, texts)]
    if len(labels) > len(texts) and lengths[0] > lengths[1]:
        counts = f"there are {len(labels):,} different labels and {len(texts):,} different texts"
        yield f"label and text look swapped: {counts}; data.fields names the columns in the order label, text"
    elif len(labels) == 1:
        yield f"there is one class, {next(iter(labels))!r}: a classifier has nothing to tell apart"
    yield from example_hints([text.text for text in train], [text.text for text in validation], "texts")


def pair_hints(train: Sequence[tuple[str, str]], validation: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Hints about sentence pairs."""
    for pair in [*train, *validation]:
        first, second = (side.strip().lower() for side in pair)
        if first in HEADERS and second in HEADERS:
            names = f"data.fields={pair[0].strip()},{pair[1].strip()}"
            if first in TARGETS and second in SOURCES:
                yield f"the columns look swapped: the row {pair[0]!r}, {pair[1]!r} names the target first; say {names}"
            else:
                yield f"the row {pair[0]!r}, {pair[1]!r} looks like a header and is read as a pair; say {names}"
            break
    if (same := sum(first == second for first, second in train)) > MANY_COPIES * len(train):
        yield f"{same:,} of {len(train):,} pairs have the same text on both sides"
    yield from example_hints(train, validation, "pairs")


def summary_hints(pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """A hint about summaries that are longer than their documents."""
    longer = sum(len(summary) > len(document) for document, summary in pairs)
    if longer > MANY_COPIES * len(pairs):
        why = "if the columns are swapped, data.fields names them in the order document, summary"
        yield f"{longer:,} of {len(pairs):,} summaries are longer than their documents: {why}"


def text_hints(documents: Iterator[Document], tokens: int) -> Iterator[str]:
    """Hints about running text with this number of tokens."""
    if tokens < FEW_TOKENS:
        yield f"only {tokens:,} tokens: the model will memorize them and learn little else"
    lines = list(islice((line for document in documents for line in document.text.splitlines()), LINES))
    long = [line for line in lines if len(line) > LONG_LINE]
    if (copies := len(long) - len(set(long))) > MANY_COPIES * max(len(long), 1):
        yield f"{copies:,} of the first {len(long):,} long lines are duplicates of others"


def unknown_hints(unknown: int, tokens: int, token: str) -> Iterator[str]:
    """A hint about a text with many unknown tokens, which are all predicted as one."""
    if unknown > MANY_UNKNOWN * tokens:
        what = f"{unknown:,} of {tokens:,} tokens ({100 * unknown / tokens:.2g} %) are unknown and read as {token}"
        yield f"{what}: loss, perplexity and bits per byte look better than they are"
