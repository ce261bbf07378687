"""`glassformer answer`: the answer to each question about a text, and where in the text it is."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from glassformer.cli.named_model import AS_STORED, LoadOptions, ModelName, load_named
from glassformer.cli.report import Json, UsageError, require_exists, talk, write, write_json
from glassformer.cli.text_arguments import STANDARD_INPUT, TextArgument, TextFile, texts_of, whole_input

ANSWER_TASKS = ("answer", "generate-answer")
LONGEST_NAME = 255  # bytes of a file's name


def answer(
    model: ModelName,
    /,
    *questions: TextArgument,
    context: Annotated[str, Parameter(alias="-c", allow_leading_hyphen=True)],
    file: TextFile = None,
    options: LoadOptions = AS_STORED,
    json: Json = False,
) -> None:
    """Answer questions about a text: each answer, its probability, and where in the text it is.

    Parameters
    ----------
    questions
        Questions about the context; - is standard input, one question per line.
    context
        The text that the questions are about, or the path of a file with it; - is standard input.
    file
        A file with one question per line; - is standard input.
    """
    if context == STANDARD_INPUT and (STANDARD_INPUT in questions or str(file) == STANDARD_INPUT):
        raise UsageError("standard input can be read only once: give - for the context or for the questions")
    text = _context(context)
    asked = texts_of(questions, file)
    found = load_named(model, options).answer(asked, text)
    from glassformer.training.evaluate import recorded_task

    task = recorded_task(model)
    if task not in (None, *ANSWER_TASKS):
        talk(f"{model} was trained for {task} and not to answer: its answers mean little")
    if json:
        write_json([{"question": question, **vars(one)} for question, one in zip(asked, found, strict=True)])
        return
    for question, one in zip(asked, found, strict=True):
        where = "not in the text" if one.start is None else f"{one.start}-{one.end}"
        write("\t".join([one.answer.replace("\n", " "), f"{one.probability:.3f}", where, question.replace("\n", " ")]))


def _context(given: str) -> str:
    """The text itself, that of a file, or standard input."""
    from glassformer.data.files import read_texts

    if given == STANDARD_INPUT:
        return whole_input("the context")
    looks_like_a_file = not any(character.isspace() for character in given) and Path(given).suffix in (".txt", ".md")
    if looks_like_a_file:
        require_exists(Path(given))
    if len(given.encode()) <= LONGEST_NAME and "\n" not in given and Path(given).is_file():
        return "\n\n".join(document.text for document in read_texts(Path(given)))
    if not given.strip():
        raise UsageError("--context is empty, wanted a text, a file with it, or - for standard input")
    return given
