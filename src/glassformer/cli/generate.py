"""`glassformer generate`, `translate` and `summarize`: prompts, sentences or documents in, generated text out."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, TypeAlias

from cyclopts import Parameter

from glassformer.cli.drawing import TEXT_ONLY, DrawingOptions, draw_to_file, draws, require_drawing
from glassformer.cli.generation_flags import GREEDY, GenerationFlags, generation_flags
from glassformer.cli.named_model import AS_STORED, LoadOptions, ModelName, load_named
from glassformer.cli.report import Flag, Json, MaybePath, UsageError, complain, require_exists, talk, write, write_json
from glassformer.decoding.config import GenerationConfig
from glassformer.errors import FAILED, DataError
from glassformer.views.console import SafeConsole

if TYPE_CHECKING:
    from glassformer.decoding.completion import Completion
    from glassformer.interface import LoadedModel
    from glassformer.text.tokenizer import Tokenizer

REASONS = {"length": "it reached --max-new-tokens", "context": "the model's context is full"}
BATCH = 512  # lines read and translated together: enough to find sentences of similar length
SHOWN = 5  # unknown words or characters in a message
STANDARD_INPUT = Path("-")
LINE_BREAKS = str.maketrans("\r\n", "  ")  # a translation is one line

SOURCES = {
    "translations": ("sentence", "translated", "translating"),
    "summaries": ("document", "summarized", "summarizing"),
}

Line: TypeAlias = tuple[str, str]  # where a sentence or document stands, and its text


@dataclass(frozen=True, kw_only=True)
class PromptFlags(GenerationFlags):
    """Generation settings of a prompt, which is continued or drawn: pictures are sampled without a temperature."""

    def _require_sampling(self) -> None:
        """Nothing yet: it depends on what the model generates."""

    def require_text(self) -> None:
        """Raise on sampling settings that text would ignore without a temperature."""
        if self.temperature == 0:
            super()._require_sampling()


Generation: TypeAlias = Annotated[PromptFlags, generation_flags("prefill_chunk|batch_tokens")]
Translation: TypeAlias = Annotated[GenerationFlags, generation_flags("prefill_chunk|batch_tokens|stop")]
GREEDY_PROMPT = PromptFlags()
TextFile: TypeAlias = Annotated[MaybePath, Parameter(alias="-f", allow_leading_hyphen=True)]


def generate(
    model: ModelName,
    prompt: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    config: Generation = GREEDY_PROMPT,
    options: LoadOptions = AS_STORED,
    drawing: DrawingOptions = TEXT_ONLY,
    file: TextFile = None,
    stream: Flag = False,
    json: Json = False,
) -> None:
    """Continue a prompt: greedy decoding, sampling or beam search; or draw it, with --image.

    Parameters
    ----------
    prompt
        Text to continue; - reads standard input, without its last line break.
    file
        A file with one prompt per line; - is standard input.
    stream
        Print the text while it is generated.
    """
    if (prompt is None) == (file is None):
        given = "no prompt is given" if file is None else "a prompt and --file are both given"
        raise UsageError(f"{given}: give a text, - for standard input, or --file")
    if stream and (json or config.n > 1 or file is not None):
        raise UsageError("--stream prints one text while it is generated: leave out --json, --n and --file")
    require_drawing(drawing, config, stream)
    if drawing.image is None:
        config.require_text()
    _require_no_beams(config, stream)
    _require_readable(file)
    typed = _typed_prompt() if prompt == "-" else prompt or ""
    loaded = _load(model, options)
    prompts = [typed] if file is None else [text for _, text in _lines(file)]
    _tell_unknown(prompts, loaded)
    if drawing.image is not None:
        judge = None if drawing.rerank is None else load_named(drawing.rerank, options)
        draw_to_file(loaded, judge, prompts, config, drawing, json)
        return
    if draws(loaded):
        raise UsageError(f"{model} draws pictures: give --image and the name of a .png file")
    if stream:
        _stream(prompts[0], config, loaded)
        return
    found = list(_continued(prompts, config, loaded, json))
    if json:
        write_json(found if file is not None else found[0])


def _continued(
    prompts: list[str], config: GenerationConfig, loaded: "LoadedModel", json: bool
) -> Iterator[dict[str, object]]:
    """Generate texts and print them, or with `json` yield each prompt with its texts as data."""
    for start in range(0, len(prompts), BATCH):
        batch = prompts[start : start + BATCH]
        texts = loaded.generate(batch, config)
        if json:
            for number, prompt in enumerate(batch):
                completions = texts[number * config.n : (number + 1) * config.n]
                yield {"prompt": prompt, "texts": [_described(text, loaded) for text in completions]}
            continue
        for number, text in enumerate(texts, start * config.n):
            if number:
                write("---")
            write(text.text)
            if text.finish_reason in REASONS:
                talk(f"text {number + 1} ends because {REASONS[text.finish_reason]}", verbose=True)


def _stream(prompt: str, config: GenerationConfig, loaded: "LoadedModel") -> None:
    """Print a text while it is generated."""
    for chunk in loaded.stream(prompt, config):
        sys.stdout.write(chunk.text)
        sys.stdout.flush()
        if chunk.finish_reason is not None:
            write()
            if chunk.finish_reason in REASONS:
                talk(f"the text ends because {REASONS[chunk.finish_reason]}", verbose=True)


def translate(
    model: ModelName,
    /,
    *texts: Annotated[str, Parameter(allow_leading_hyphen=True)],
    config: Translation = GREEDY,
    options: LoadOptions = AS_STORED,
    file: TextFile = None,
    stream: Flag = False,
    json: Json = False,
) -> int | None:
    """Translate sentences, or a file or standard input line by line.

    Parameters
    ----------
    texts
        Sentences; standard input is read if this is - or if both this and --file are left out.
    file
        A file with one sentence per line; - is standard input. A line too long for the model is named and left blank.
    stream
        Print each translation before the next line is read.
    """
    return _write_each("translations", model, texts, config, options, file, stream, json)


def summarize(
    model: ModelName,
    /,
    *texts: Annotated[str, Parameter(allow_leading_hyphen=True)],
    config: Translation = GREEDY,
    options: LoadOptions = AS_STORED,
    file: TextFile = None,
    stream: Flag = False,
    json: Json = False,
) -> int | None:
    """Summarize documents, or a file or standard input line by line.

    Parameters
    ----------
    texts
        Documents; standard input is read if this is - or if both this and --file are left out.
    file
        A file with one document per line; - is standard input. A line too long for the model is named and left blank.
    stream
        Print each summary before the next line is read.
    """
    return _write_each("summaries", model, texts, config, options, file, stream, json)


def _write_each(
    what: str,
    model: str,
    texts: tuple[str, ...],
    config: GenerationFlags,
    options: LoadOptions,
    file: Path | None,
    stream: bool,
    json: bool,
) -> int | None:
    """Write a text for each source: `what` are translations or summaries."""
    if texts and file is not None:
        raise UsageError(f"a {SOURCES[what][0]} and --file are both given, wanted one of them")
    if stream and json:
        raise UsageError(f"--stream prints {what} one by one, as text: leave out --json")
    if len(texts) > 1 and "-" in texts:
        raise UsageError("- reads standard input: leave out the other texts")
    _require_readable(file)
    loaded = _load(model, options)
    # raises if the model has no encoder, before any input is read
    (loaded.translate if what == "translations" else loaded.summarize)([])
    lines = _lines(file or STANDARD_INPUT) if texts in ((), ("-",)) else iter([("", text) for text in texts])
    lines = _not_all_blank(lines) if what == "summaries" else lines
    batches = _batches(_with_progress(lines, file, SOURCES[what][2]), 1 if stream else BATCH)
    found: list[dict[str, object]] = []
    told, left_out = False, 0
    try:
        for batch in batches:
            told = told or _tell_unknown([source for _, source in batch], loaded)
            for source, completions in _translate_lines(loaded, batch, config, what):
                left_out += not completions
                if json:
                    found.append({"source": source, what: [_described(one, loaded) for one in completions]})
                    continue
                for each in [one.text for one in completions] or [""] * config.n:
                    write(each.translate(LINE_BREAKS))
                sys.stdout.flush()
    finally:
        if json:
            write_json(found)
    return FAILED if left_out else None


def _require_no_beams(config: GenerationConfig, stream: bool) -> None:
    """Raise on a beam search that should be streamed."""
    if stream and config.num_beams > 1:
        why = "beam search knows its best text only at the end"
        raise UsageError(f"--num-beams is {config.num_beams}, wanted 1 with --stream: {why}")


def _load(name: str, options: LoadOptions) -> "LoadedModel":
    """The model of this name, with a tokenizer."""
    loaded = load_named(name, options)
    loaded.required_tokenizer()
    return loaded


def _described(completion: "Completion", loaded: "LoadedModel") -> dict[str, object]:
    """A completion as data: its text, finish reason, log-probability and tokens."""
    token = loaded.required_tokenizer().token
    tokens = [
        {"id": id, "token": token(id), "log_probability": log_probability}
        for id, log_probability in zip(completion.ids, completion.log_probabilities, strict=True)
    ]
    score, reason = completion.score, completion.finish_reason
    return {"text": completion.text, "finish_reason": reason, "score": score, "tokens": tokens}


def _require_readable(file: Path | None) -> None:
    """Raise if a file of texts does not exist."""
    if file not in (None, STANDARD_INPUT):
        require_exists(file)


def _lines(file: Path) -> Iterator[Line]:
    """The lines of a file or of standard input, and where each stands."""
    from glassformer.data.files import lines_of, read_lines

    return lines_of(_standard_input(), "standard input") if file == STANDARD_INPUT else read_lines(file)


def _tell_unknown(texts: Sequence[str], loaded: "LoadedModel") -> bool:
    """Say which words or characters of texts the model cannot read, if there are any."""
    tokenizer = loaded.required_tokenizer()
    unknown = unknown_parts(texts, tokenizer)
    if unknown:
        what = ", ".join(map(repr, unknown[:SHOWN])) + (", …" if len(unknown) > SHOWN else "")
        talk(f"not in the model's vocabulary, and read as {tokenizer.roles['unk']}: {what}")
    return bool(unknown)


def unknown_parts(texts: Sequence[str], tokenizer: "Tokenizer") -> list[str]:
    """The words of texts that a tokenizer does not know; their characters if its tokens are characters."""
    unk = tokenizer.unk
    if unk is None:
        return []
    found: dict[str, None] = {}
    for word in dict.fromkeys(word for text in texts for word in text.split()):
        ids = tokenizer.encode(word)
        if unk in ids:
            characters = [character for character, id in zip(word, ids, strict=False) if id == unk]
            found.update(dict.fromkeys(characters if len(ids) == len(word) else [word]))
    return list(found)


def _standard_input() -> BinaryIO:
    if sys.stdin is None:  # Python's value for a closed stream
        raise UsageError("standard input is closed: give the text itself")
    return sys.stdin.buffer


def _typed_prompt() -> str:
    """The prompt on standard input, without the line break that ends its last line."""
    try:
        text = _standard_input().read().decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input: byte {error.start} is not UTF-8") from None
    return text.removesuffix("\n").removesuffix("\r")


def _not_all_blank(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines, or an error at their end if there was no text among them."""
    any_text = False
    for line in lines:
        any_text |= bool(line[1].strip())
        yield line
    if not any_text:
        raise UsageError("the text is empty")


def _with_progress(lines: Iterable[Line], file: Path | None, doing: str) -> Iterator[Line]:
    """The lines of a file, with a progress bar if the terminal shows only standard error."""
    if file is None or not sys.stderr.isatty() or sys.stdout.isatty():
        yield from lines
        return
    from rich.progress import Progress

    # Translations go to standard output, which rich would redirect to the terminal while the bar is shown.
    with Progress(console=SafeConsole(stderr=True), redirect_stdout=False) as progress:
        yield from progress.track(list(lines), description=doing)


def _batches(lines: Iterable[Line], size: int) -> Iterator[list[Line]]:
    """Batches of lines; an error while reading comes after the lines before it."""
    batch: list[Line] = []
    try:
        for line in lines:
            batch.append(line)
            if len(batch) == size:
                yield batch
                batch = []
    except DataError:
        yield batch
        raise
    yield batch


def _translate_lines(
    loaded: "LoadedModel", lines: list[Line], config: GenerationConfig, what: str
) -> "Iterator[tuple[str, Sequence[Completion]]]":
    """Each source with its translations; one that is too long for the model has none, which is said."""
    sources = [source for _, source in lines]
    sizes = [len(row) for row in loaded.required_tokenizer().encode_inputs(sources)]
    context = loaded.max_length
    fits = [context is None or size <= context for size in sizes]
    texts = iter(loaded.generate(list(compress(sources, fits)), config))
    for (where, source), size, fit in zip(lines, sizes, fits, strict=True):
        noun, done, _ = SOURCES[what]
        limit = f"wanted at most {context}, the model's context"
        fault = f"{where or f'the {noun}'}: has {size} tokens, {limit}"
        if not fit and not where:
            raise UsageError(fault)
        if not fit:
            complain(f"error: {fault}; it is not {done}")
        yield source, list(islice(texts, config.n)) if fit else []
