"""`glassformer translate`: sentences in, sentences out, in their order."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from glassformer.cli.report import Json, UsageError, write, write_json
from glassformer.cli.writing import ENGINE, Choice, Engine, decoding, described, load_writer

if TYPE_CHECKING:
    from glassformer.decoding.settings import Decoding
    from glassformer.decoding.written import Written
    from glassformer.layers.model import Model
    from glassformer.text.tokenizer import Tokenizer

LIKELIEST_TOKENS = Choice()
AT_ONCE = 512  # read and translated together: enough to find sentences of like length


def translate(
    model: str,
    text: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    choice: Choice = LIKELIEST_TOKENS,
    engine: Engine = ENGINE,
    file: Path | None = None,
    stream: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    json: Json = False,
) -> None:
    """Translate a sentence, or a file or standard input line by line.

    Parameters
    ----------
    model
        The folder of a translator.
    text
        A sentence; without it, and without --file, standard input is read.
    file
        A file with one sentence on each line.
    stream
        Give each line's translation at once, before the next line is read.
    """
    if text is not None and file is not None:
        raise UsageError("a sentence and --file are both given, wanted one of them")
    loaded, writer, tokenizer = load_writer(model, engine)
    how = decoding(choice, loaded, compiled=engine.compiled)
    _require_translator(writer)
    sources = [text] if text is not None else _source_lines(file)
    found: list[dict[str, object]] = []
    for source, written in _translate_lines(
        writer, tokenizer, _with_a_bar(sources, file), how, 1 if stream else AT_ONCE
    ):
        if json:
            found.append({"source": source, "translations": [described(one, tokenizer) for one in written]})
            continue
        for one in written:
            write(one.text)
        sys.stdout.flush()
    if json:
        write_json(found)


def _require_translator(model: "Model") -> None:
    from glassformer.decoding.session import Translator
    from glassformer.errors import DecodingError

    if not isinstance(model, Translator):
        raise DecodingError(f"{type(model).__name__} does not translate: it has no encoder; try `glassformer generate`")


def _source_lines(file: Path | None) -> Iterator[str]:
    if file is None:
        for line in sys.stdin:
            yield line.rstrip("\r\n")
        return
    try:
        with file.open(encoding="utf-8", newline=None) as handle:
            for line in handle:
                yield line.rstrip("\n")
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: byte {error.start} of a line is not UTF-8") from None


def _with_a_bar(sources: Iterable[str], file: Path | None) -> Iterator[str]:
    """The lines, and a bar of how many have been taken, where someone watches a file being translated."""
    if file is None or not sys.stderr.isatty():
        yield from sources
        return
    from rich.console import Console
    from rich.progress import track

    lines = list(sources)
    yield from track(lines, description="translating", console=Console(stderr=True))


def _translate_lines(
    model: "Model", tokenizer: "Tokenizer", sources: Iterable[str], how: "Decoding", at_once: int
) -> "Iterator[tuple[str, Sequence[Written]]]":
    """Every source with its translations, a number of lines at a time."""
    portion: list[str] = []
    for source in sources:
        portion.append(source)
        if len(portion) == at_once:
            yield from _portion(model, tokenizer, portion, how)
            portion = []
    yield from _portion(model, tokenizer, portion, how)


def _portion(
    model: "Model", tokenizer: "Tokenizer", portion: list[str], how: "Decoding"
) -> "Iterator[tuple[str, Sequence[Written]]]":
    from glassformer.decoding.generate import generate as generate_texts

    texts = generate_texts(model, tokenizer, portion, how)
    each = len(texts) // max(1, len(portion))
    for number, source in enumerate(portion):
        yield source, texts[number * each : (number + 1) * each]
