"""`glassformer answer` and `glassformer summarize`: the same as in Python, from texts, files and standard input."""

import io
import json
import sys
from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.cli.main import main
from glassformer.decoding.answers import span_answers
from glassformer.models.encoder import Encoder, EncoderConfig
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.text.questions import encode_question
from tests.test_interface import encoder, saved

CONTEXT = "one two  three four five six"
QUESTIONS = ["seven eight", "nine"]


def test_questions_are_answered_as_in_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = encoder(tmp_path / "model", "span")
    wanted = gf.load(folder).answer(QUESTIONS, CONTEXT)
    assert main(["answer", str(folder), *QUESTIONS, "--context", CONTEXT, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["question"] for row in found] == QUESTIONS
    for row, one in zip(found, wanted, strict=True):
        assert {name: row[name] for name in vars(one)} == pytest.approx(vars(one))
        assert CONTEXT[row["start"] : row["end"]] == row["answer"]
    assert main(["answer", str(folder), QUESTIONS[0], "-c", CONTEXT]) == 0
    line = capsys.readouterr().out.rstrip("\n").split("\t")
    assert line == [
        wanted[0].answer,
        f"{wanted[0].probability:.3f}",
        f"{wanted[0].start}-{wanted[0].end}",
        QUESTIONS[0],
    ]


def test_context_and_questions_come_from_files_and_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = encoder(tmp_path / "model", "span")
    (tmp_path / "text.txt").write_text(CONTEXT)
    (tmp_path / "questions").write_text("\n".join(QUESTIONS))
    shown = []
    for words in (
        ["--context", CONTEXT, *QUESTIONS],
        ["--context", str(tmp_path / "text.txt"), "--file", str(tmp_path / "questions")],
        ["--context", "-", *QUESTIONS],
        ["--context", CONTEXT, "-"],
    ):
        typed = CONTEXT if words[1] == "-" else "\n".join(QUESTIONS)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
        assert main(["answer", str(folder), *words]) == 0
        shown.append(capsys.readouterr().out)
    assert len(set(shown)) == 1 and shown[0].count("\n") == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["one"], "context"),
        (["one", "-c", " "], "--context is empty, wanted a text, a file with it, or - for standard input"),
        (["one", "-c", "nowhere.txt"], "nowhere.txt"),
        ([" ", "-c", "one two"], "the text is empty"),
        (["-", "-c", "-"], "standard input can be read only once"),
        (["one two three four five six seven eight nine ten one", "-c", "one"], "the question has"),
    ],
)
def test_bad_use_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    folder = encoder(tmp_path / "model", "span")
    assert main(["answer", str(folder), *words]) in (1, 2)
    shown = capsys.readouterr()
    assert said in shown.err and shown.err.count("\n") == 1 and shown.out == ""


def test_another_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["answer", str(encoder(tmp_path, "masked")), "one", "-c", "two"]) == 2
    assert "head is masked, wanted span to answer questions" in capsys.readouterr().err


def test_an_encoder_decoder_writes_its_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = saved(tmp_path, "seq2seq")
    assert main(["answer", str(folder), "one", "-c", "two three", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["answer"] == gf.load(folder).answer("one", "two three").answer


def test_documents_are_summarized_like_sentences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = saved(tmp_path / "model", "seq2seq")
    (tmp_path / "lines.txt").write_text("one two\nthree four\n")
    shown = {}
    for command in ("translate", "summarize"):
        assert main([command, str(folder), "--file", str(tmp_path / "lines.txt"), "-m", "5"]) == 0
        shown[command] = capsys.readouterr().out
    assert shown["translate"] == shown["summarize"] and shown["summarize"].count("\n") == 2
    assert main(["summarize", str(folder), "one two", "-m", "4", "--min-new-tokens", "4", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["source"] == "one two" and len(found["summaries"][0]["tokens"]) == 4
    assert main(["summarize", str(folder), "one", "--file", str(tmp_path / "lines.txt")]) == 2
    assert "a document and --file are both given" in capsys.readouterr().err


def test_an_answer_is_never_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = learn_tokenizer(["one two\n\n three?"], "characters", 40).for_encoder()
    config = EncoderConfig(vocab=tokenizer.vocab_size, context=40, dim=8, layers=1, heads=2, ffn_dim=8, head="span")
    model, context = gf.build(config, 0), "one\n\ntwo"
    assert isinstance(model, Encoder)
    window = encode_question(tokenizer, "two?", context, 40, 2)[0]
    at = torch.arange(len(window.ids))
    logits = -(at - window.first - 3.0).abs().repeat(1, 2, 1)  # the most likely span is the first line break
    monkeypatch.setattr(Encoder, "forward", lambda *_: logits)
    (found,) = span_answers(model, tokenizer, [("two?", context)])
    assert found.answer == "e" and (found.start, found.end) == (2, 3)


def test_summaries_speak_of_documents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(saved(tmp_path / "model", "seq2seq"))
    for typed, words in ((b"", ["-"]), (b" \n\n", []), (b"", [""])):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed)))
        assert main(["summarize", folder, *words]) == 2
        shown = capsys.readouterr()
        assert "the text is empty" in shown.err and shown.out == ""
    assert main(["summarize", folder, "one two " * 200]) == 2
    assert "the document: has" in capsys.readouterr().err
    (tmp_path / "lines.txt").write_text("one two " * 200 + "\none two\n")
    assert main(["summarize", folder, "--file", str(tmp_path / "lines.txt"), "-m", "5"]) == 1
    assert "it is not summarized" in capsys.readouterr().err
    assert main(["summarize", str(saved(tmp_path / "gpt", "gpt")), "one"]) != 0
    assert "GPT does not summarize" in capsys.readouterr().err


def test_a_model_trained_for_something_else_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(saved(tmp_path, "seq2seq"))
    for task, told in (("translate", True), ("generate-answer", False), (None, False)):
        monkeypatch.setattr("glassformer.training.evaluate.recorded_task", lambda path, task=task: task)
        assert main(["answer", folder, "one", "-c", "two three"]) == 0
        assert (f"was trained for {task} and not to answer" in capsys.readouterr().err) == told
