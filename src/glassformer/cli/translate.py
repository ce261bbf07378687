"""`glassformer translate`: sentences in, sentences out, in their order."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from cyclopts import Parameter

from glassformer.cli.report import Json, MaybePath, UsageError, write, write_json
from glassformer.cli.writing import ENGINE, Choice, Engine, decoding, described, load_writer, standard_input
from glassformer.errors import DataError
from glassformer.views.console import SafeConsole

if TYPE_CHECKING:
    from glassformer.decoding.completion import Completion
    from glassformer.decoding.config import GenerationConfig
    from glassformer.layers.model import Model
    from glassformer.text.tokenizer import Tokenizer

LIKELIEST_TOKENS = Choice()
GIVEN = "the sentence"  # where one stands that is given itself
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
    file: MaybePath = None,
    stream: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    json: Json = False,
) -> None:
    """Translate a sentence, or a file or standard input line by line.

    Parameters
    ----------
    model
        The folder of a translator.
    text
        A sentence; without it and without --file, or where it is -, standard input is read.
    file
        A file with one sentence on each line.
    stream
        Give each line's translation at once, before the next line is read.
    """
    if text is not None and file is not None:
        raise UsageError("a sentence and --file are both given, wanted one of them")
    if stream and json:
        raise UsageError("--stream gives each translation at once, as text: leave out --json")
    config = decoding(choice, compile=engine.compile)
    _, writer, tokenizer = load_writer(model, engine)
    _require_translator(writer)
    lines = _source_lines(file) if text in (None, "-") else [(GIVEN, text)]
    portions = _in_portions(_with_a_bar(lines, file), 1 if stream else AT_ONCE)
    found: list[dict[str, object]] = []
    try:
        for source, written in (
            pair for some in portions for pair in _translate_lines(writer, tokenizer, some, config)
        ):
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
    from glassformer.errors import DecodingError
    from glassformer.layers.encoder_decoder import EncoderDecoder

    if not isinstance(model, EncoderDecoder):
        raise DecodingError(f"{type(model).__name__} does not translate: it has no encoder; try `glassformer generate`")


def _source_lines(file: Path | None) -> Iterator[Line]:
    from glassformer.data.files import lines_of, read_lines

    if file is not None:
        return read_lines(file)
    return lines_of(standard_input(), "standard input")


def _with_a_bar(lines: Iterable[Line], file: Path | None) -> Iterator[Line]:
    """The lines of a file, with a progress bar on a terminal that does not show the translations themselves."""
    if file is None or not sys.stderr.isatty() or sys.stdout.isatty():
        yield from lines
        return
    from rich.progress import Progress

    # Standard output is where the translations go: rich would send it to the terminal while the bar is shown.
    with Progress(console=SafeConsole(stderr=True), redirect_stdout=False) as progress:
        yield from progress.track(list(lines), description="translating")


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
    model: "Model", tokenizer: "Tokenizer", lines: list[Line], config: "GenerationConfig"
) -> "Iterator[tuple[str, Sequence[Completion]]]":
    """Every source with its translations, up to one that is too long for the model, which an error names."""
    from glassformer.decoding.generate import encode_prompts
    from glassformer.decoding.generate import generate as generate_texts
    from glassformer.inference.prepare import require_generator

    sources = [source for _, source in lines]
    sizes = [len(row) for row in encode_prompts(model, tokenizer, sources)]
    context = require_generator(model).max_length
    fit = next((i for i, size in enumerate(sizes) if context is not None and size > context), len(sizes))
    texts = generate_texts(model, tokenizer, sources[:fit], config)
    each = len(texts) // max(1, fit)
    for number, source in enumerate(sources[:fit]):
        yield source, texts[number * each : (number + 1) * each]
    if fit < len(sizes):
        place, _ = lines[fit]
        fault = f"{place}: has {sizes[fit]} tokens, wanted at most {context}, the model's context"
        raise UsageError(fault) if place == GIVEN else DataError(fault)
