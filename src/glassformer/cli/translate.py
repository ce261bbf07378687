"""`glassformer translate`: sentences in, sentences out, in their order."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from cyclopts import Parameter

from glassformer.cli.report import Json, UsageError, write, write_json
from glassformer.cli.writing import ENGINE, Choice, Engine, decoding, described, load_writer
from glassformer.errors import DataError

if TYPE_CHECKING:
    from glassformer.decoding.settings import Decoding
    from glassformer.decoding.written import Written
    from glassformer.layers.model import Model
    from glassformer.text.tokenizer import Tokenizer

LIKELIEST_TOKENS = Choice()
AT_ONCE = 512  # read and translated together: enough to find sentences of like length
LINE_ENDS = str.maketrans("\r\n", "  ")  # a translation is one line

Line: TypeAlias = tuple[str, str]  # where a sentence stands, and the sentence


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
    if stream and json:
        raise UsageError("--stream gives each translation at once, as text: leave out --json")
    _, writer, tokenizer = load_writer(model, engine)
    how = decoding(choice, compiled=engine.compiled)
    _require_translator(writer)
    lines = [("the sentence", text)] if text is not None else _source_lines(file)
    portions = _in_portions(_with_a_bar(lines, file), 1 if stream else AT_ONCE)
    found: list[dict[str, object]] = []
    try:
        for source, written in (pair for some in portions for pair in _translate_lines(writer, tokenizer, some, how)):
            if json:
                found.append({"source": source, "translations": [described(one, tokenizer) for one in written]})
                continue
            for one in written:
                write(one.text.translate(LINE_ENDS))
            sys.stdout.flush()
    finally:
        if json:
            write_json(found)


def _require_translator(model: "Model") -> None:
    from glassformer.decoding.session import Translator
    from glassformer.errors import DecodingError

    if not isinstance(model, Translator):
        raise DecodingError(f"{type(model).__name__} does not translate: it has no encoder; try `glassformer generate`")


def _source_lines(file: Path | None) -> Iterator[Line]:
    from glassformer.data.files import lines_of, read_lines

    if file is not None:
        return read_lines(file)
    if sys.stdin is None:  # so Python has it where it was closed
        raise UsageError("standard input is closed: give a sentence or --file")
    return lines_of(sys.stdin.buffer, "standard input")


def _with_a_bar(lines: Iterable[Line], file: Path | None) -> Iterator[Line]:
    """The lines, and a bar of how many have been taken, where someone watches a file being translated."""
    if file is None or not sys.stderr.isatty():
        yield from lines
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(list(lines), description="translating", console=Console(stderr=True))


def _in_portions(lines: Iterable[Line], at_once: int) -> Iterator[list[Line]]:
    """A number of lines at a time; an error of reading waits for the lines before it."""
    portion: list[Line] = []
    try:
        for line in lines:
            portion.append(line)
            if len(portion) == at_once:
                yield portion
                portion = []
    except DataError:
        yield portion
        raise
    yield portion


def _translate_lines(
    model: "Model", tokenizer: "Tokenizer", lines: list[Line], how: "Decoding"
) -> "Iterator[tuple[str, Sequence[Written]]]":
    """Every source with its translations, up to one that is too long for the model, which an error names."""
    from glassformer.decoding.generate import encode_prompts
    from glassformer.decoding.generate import generate as generate_texts
    from glassformer.decoding.session import context_of, require_writer

    sources = [source for _, source in lines]
    sizes = [len(row) for row in encode_prompts(model, tokenizer, sources)]
    context = context_of(require_writer(model))
    fit = next((i for i, size in enumerate(sizes) if context is not None and size > context), len(sizes))
    texts = generate_texts(model, tokenizer, sources[:fit], how)
    each = len(texts) // max(1, fit)
    for number, source in enumerate(sources[:fit]):
        yield source, texts[number * each : (number + 1) * each]
    if fit < len(sizes):
        place, _ = lines[fit]
        raise DataError(f"{place}: has {sizes[fit]} tokens, wanted at most {context}, the model's context")
