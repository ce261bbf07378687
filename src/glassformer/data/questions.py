"""Questions with their contexts and answers from files: tables, lines of JSON, and SQuAD's format."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from glassformer.data.files import paths_in, read_rows
from glassformer.errors import DataError
from glassformer.safe_read import read_bytes

MOST_BYTES = 2**30  # of a SQuAD file
START = "answer_start"


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its context, the answers that count as right, and the first character of the first in the context.

    Without an answer in the context, `start` is None; a question that cannot be answered has no answers.
    """

    question: str
    context: str
    answers: tuple[str, ...]
    start: int | None
    source: str


class _Answer(msgspec.Struct):
    text: str
    answer_start: int = -1


class _Asked(msgspec.Struct):
    question: str
    answers: list[_Answer] = []


class _Paragraph(msgspec.Struct):
    context: str
    qas: list[_Asked]


class _Article(msgspec.Struct):
    paragraphs: list[_Paragraph]


class _Squad(msgspec.Struct):
    data: list[_Article]


def read_questions(
    path: Path | str, fields: tuple[str, str, str] = ("question", "context", "answer")
) -> Iterator[Question]:
    """Questions of a .tsv, .csv, .jsonl or .parquet file with three fields, or of a .json file in SQuAD's format.

    A fourth field, `answer_start`, may say where the answer is; without it, it is where it first occurs.
    """
    wanted = ".tsv, .csv, .jsonl, .parquet or SQuAD's .json"
    for file in paths_in(path):
        if file.suffix.lower() == ".json":
            yield from _squad(file)
            continue
        for source, (question, context, answer, start) in read_rows(file, fields, START, wanted):
            for name, text in zip(fields[:2], (question, context), strict=True):
                if not text.strip():
                    raise DataError(f"{source}: {name} is empty")
            if start and not start.isdecimal():
                raise DataError(f"{source}: {START} is {start[:20]!r}, wanted a character of the context, from 0")
            found = [_Answer(answer, int(start) if start else -1)] if answer.strip() else []
            yield _question(question, context, found, source)


def _squad(path: Path) -> Iterator[Question]:
    """Questions in SQuAD's format; its second version has some without an answer."""
    try:
        table = msgspec.json.decode(read_bytes(path, MOST_BYTES, DataError), type=_Squad)
    except msgspec.ValidationError as error:
        raise DataError(f"{path}: is not in SQuAD's format: {error}") from None
    except (msgspec.DecodeError, json.JSONDecodeError, RecursionError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: is not JSON: {error}") from None
    number = 0
    for article in table.data:
        for paragraph in article.paragraphs:
            for asked in paragraph.qas:
                number += 1
                source = f"{path}: question {number}"
                for name, text in (("question", asked.question), ("context", paragraph.context)):
                    if not text.strip():
                        raise DataError(f"{source}: {name} is empty")
                yield _question(asked.question, paragraph.context, asked.answers, source)
    if not number:
        raise DataError(f"{path}: is empty")


def _question(question: str, context: str, answers: list[_Answer], source: str) -> Question:
    """A question, with the start of its first answer as given or found."""
    filled = [answer for answer in answers if answer.text.strip()]
    start = None
    if filled:
        text, given = filled[0].text, filled[0].answer_start
        start = given if given >= 0 and context.startswith(text, given) else context.find(text)
        start = None if start < 0 else start
    texts = dict.fromkeys(answer.text for answer in filled)
    return Question(question, context, tuple(texts), start, source)
