"""Questions from files: every format, answers found where they are, one line about what is wrong."""

import json
from pathlib import Path

import pytest

from glassformer.data.questions import read_questions
from glassformer.errors import DataError, GlassformerError

CONTEXT = "Ana saw Ben. Ben saw Ana."


def squad(*answers: dict[str, object], context: str = CONTEXT) -> str:
    asked = [{"question": "Who saw Ana?", "id": "1", "answers": list(answers)}]
    return json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": context, "qas": asked}]}]})


@pytest.mark.parametrize(
    ("name", "text", "start"),
    [
        ("q.tsv", f"Who saw Ana?\t{CONTEXT}\tBen\n", 8),
        ("q.tsv", f"question\tcontext\tanswer\tanswer_start\nWho saw Ana?\t{CONTEXT}\tBen\t13\n", 13),
        ("q.csv", f'answer,context,question\nBen,"{CONTEXT}",Who saw Ana?\n', 8),
        ("q.jsonl", json.dumps({"question": "Who saw Ana?", "context": CONTEXT, "answer": "Ben"}), 8),
        (
            "q.jsonl",
            json.dumps({"question": "Who saw Ana?", "context": CONTEXT, "answer": "Ben", "answer_start": 13}),
            13,
        ),
        ("q.json", squad({"text": "Ben", "answer_start": 13}), 13),
        ("q.json", squad({"text": "Ben", "answer_start": 2}), 8),  # not where the file says: searched for
        ("q.json", squad({"text": "Bob", "answer_start": 13}), None),
    ],
)
def test_questions_are_read(tmp_path: Path, name: str, text: str, start: int | None) -> None:
    (tmp_path / name).write_text(text)
    (found,) = read_questions(tmp_path / name)
    assert (found.question, found.context, found.start) == ("Who saw Ana?", CONTEXT, start)
    assert found.answers == (("Ben",) if start is not None else ("Bob",))


def test_several_answers_count_and_none_is_none(tmp_path: Path) -> None:
    (tmp_path / "several.json").write_text(
        squad({"text": "Ben", "answer_start": 13}, {"text": "Ben saw"}, {"text": "Ben"})
    )
    assert next(read_questions(tmp_path / "several.json")).answers == ("Ben", "Ben saw")
    (tmp_path / "none.json").write_text(squad())
    found = next(read_questions(tmp_path / "none.json"))
    assert found.answers == () and found.start is None


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("q.tsv", "Who?\tAna\n", "has 2 columns, wanted 3: question, context, answer"),
        ("q.jsonl", '{"question": "Who?", "answer": "Ana"}', "has no field 'context'"),
        ("q.jsonl", '{"question": " ", "context": "Ana", "answer": "Ana"}', "q.jsonl:1: question is empty"),
        ("q.tsv", "Who?\t \tAna\n", "q.tsv:1: context is empty"),
        ("q.jsonl", '{"question": "a", "context": "b", "answer": "b", "answer_start": "x"}', "answer_start is 'x'"),
        ("q.json", '{"data": [{"paragraphs": [{"qas": []}]}]}', "is not in SQuAD's format"),
        ("q.json", '{"data": []}', "is empty"),
        ("q.json", '{"data": [', "is not JSON"),
        ("q.json", squad({"text": "Ben"}, context=" "), "question 1: context is empty"),
        ("q.pdf", "x", "is .pdf, wanted .tsv, .csv, .jsonl, .parquet or SQuAD's .json"),
        ("q.jsonl", "", "is empty"),
    ],
)
def test_bad_files_are_one_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(GlassformerError) as caught:
        list(read_questions(tmp_path / name))
    assert said in str(caught.value) and "\n" not in str(caught.value) and isinstance(caught.value, Exception)


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "q.json").write_bytes(b'{"data": "\xff"}')
    with pytest.raises(DataError, match="is not"):
        list(read_questions(tmp_path / "q.json"))
