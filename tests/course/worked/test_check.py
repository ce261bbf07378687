"""`glassformer check`: what it writes, and the status it ends with."""

import json
import subprocess

import pytest

import glassformer as gf
from glassformer.cli.main import main
from glassformer.course.worked.examples import WorkedExample, examples
from glassformer.course.worked.verdicts import Result

FEW = ("gd-x2-iteration-10", "cosine-similarity-cat-dog", "softmax-2-1-02", "permutation-equivariance", "alibi-slopes")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handful of examples in the place of all, where one is as good as the other."""
    chosen: list[WorkedExample] = [example for example in examples() if example.id in FEW]
    monkeypatch.setattr("glassformer.course.worked.verdicts.examples", lambda: chosen)


def break_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gf.equations.softmax, "fn", lambda z: z.sigmoid())


def test_json_lists_all_and_none_is_wrong(
    whole_check: subprocess.CompletedProcess[bytes], results: dict[str, Result]
) -> None:
    assert whole_check.returncode == 0
    assert whole_check.stderr == b""
    assert list(results) == [example.id for example in examples()]
    assert len(results) == 139
    assert {result.verdict for result in results.values()} == {"reproduced", "rounding", "corrected", "stated"}
    assert all(result.expected_ok for result in results.values())


@pytest.mark.usefixtures("few")
def test_the_table_shows_print_beside_what_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[-1] == "5 examples: 3 reproduced, 1 rounding, 1 corrected, 0 stated, 0 wrong"
    row = next(line.split() for line in text.splitlines() if "gd-x2-iteration-10" in line)
    assert row == ["gd-x2-iteration-10", "corrected", "x", "0.27", "0.322122547"]
    assert "The Transformer: Let's dive into math" in text
    assert "holds" in text


@pytest.mark.usefixtures("few")
def test_a_broken_equation_ends_with_one(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    break_softmax(monkeypatch)
    assert main(["check"]) == 1
    text = capsys.readouterr().out
    assert "WRONG" in text
    assert text.splitlines()[-1] == "5 examples: 1 reproduced, 1 rounding, 1 corrected, 0 stated, 2 wrong"


@pytest.mark.usefixtures("few")
def test_and_so_does_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    break_softmax(monkeypatch)
    assert main(["check", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [result["id"] for result in found if not result["expected_ok"]] == [
        "permutation-equivariance",
        "softmax-2-1-02",
    ]
    keys = {"id", "source", "section", "what", "equation", "verdict", "printed", "value", "expected_ok", "note"}
    assert all(keys <= set(result) for result in found)


def test_one_example_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "layernorm-M"]) == 0
    text = " ".join(capsys.readouterr().out.split())  # however the lines are wrapped
    example = next(example for example in examples() if example.id == "layernorm-M")
    assert example.recipe is not None
    parts = ["corrected", example.source, example.section, example.what, "(x − μ) / √(σ² + ε)", example.recipe.how]
    assert [part for part in parts if part not in text] == []
    assert "−1.03927194" in text
    assert "−1.03927142" in text
    assert "expected" not in text


def test_a_wrong_one_in_full_shows_what_was_expected(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_softmax(monkeypatch)
    assert main(["check", "softmax-2-1-02"]) == 1
    text = capsys.readouterr().out
    assert "softmax-2-1-02: wrong" in text
    assert "expected" in text
    assert "0.652239848" in text


def test_one_example_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "gpt-h0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "gpt-h0"


def test_an_unknown_example_is_bad_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "gpt-h9"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "did you mean gpt-h" in err
