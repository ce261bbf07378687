"""`glassformer generate`: a prompt in, text out."""

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from glassformer.cli.report import Json, UsageError, talk, write, write_json
from glassformer.cli.writing import ENGINE, Choice, Engine, Stop, decoding, described, load_writer, standard_input

if TYPE_CHECKING:
    from glassformer.decoding.config import GenerationConfig
    from glassformer.layers.model import Model
    from glassformer.text.tokenizer import Tokenizer

REASONS = {"length": "the limit of tokens was reached", "context": "the model's context is full"}
GREEDY = Choice()


def generate(
    model: str,
    prompt: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    choice: Choice = GREEDY,
    engine: Engine = ENGINE,
    stop: Stop = None,
    stream: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    json: Json = False,
) -> None:
    """Write on from a prompt: the likeliest text, drawn ones, or the best of a beam.

    Parameters
    ----------
    model
        The folder of a model.
    prompt
        What to go on from; - reads standard input, less its last line break.
    stream
        Show the text as it is written.
    """
    from glassformer.decoding.generate import generate as generate_texts

    if stream and (json or choice.n > 1):
        raise UsageError("--stream shows one text as it is written: leave out --json and --n")
    prompt = _typed() if prompt == "-" else prompt
    config = decoding(choice, compile=engine.compile, stop=tuple(stop or ()))
    _, writer, tokenizer = load_writer(model, engine)
    if stream:
        _show(writer, tokenizer, prompt, config)
        return
    texts = generate_texts(writer, tokenizer, prompt, config)
    if json:
        write_json({"prompt": prompt, "texts": [described(text, tokenizer) for text in texts]})
        return
    for number, text in enumerate(texts):
        if number:
            write("---")
        write(text.text)
        if text.finish_reason in REASONS:
            talk(f"text {number + 1} ends because {REASONS[text.finish_reason]}")


def _typed() -> str:
    """The prompt on standard input; the line break that ends the last line is not part of it."""
    try:
        text = standard_input().read().decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input: byte {error.start} is not UTF-8") from None
    return text.removesuffix("\n").removesuffix("\r")


def _show(model: "Model", tokenizer: "Tokenizer", prompt: str, config: "GenerationConfig") -> None:
    from glassformer.decoding.generate import stream as stream_texts

    for piece in stream_texts(model, tokenizer, prompt, config):
        sys.stdout.write(piece.text)
        sys.stdout.flush()
        if piece.finish_reason is not None:
            write()
            if piece.finish_reason in REASONS:
                talk(f"the text ends because {REASONS[piece.finish_reason]}")
