"""`glassformer walk`."""

import io
import json
from pathlib import Path

import pytest

from glassformer.cli.main import main
from glassformer.course import registry
from tests.course.runs import NAMES
from tests.course.runs import run as lesson_run


def walk(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["walk", *words])
    told = capsys.readouterr()
    return status, told.out, told.err


def type_in(monkeypatch: pytest.MonkeyPatch, *lines: str, terminal: bool = False) -> None:
    stdin = io.StringIO("".join(f"{line}\n" for line in lines))
    stdin.isatty = lambda: terminal  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", stdin)


def test_the_list_is_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = walk(capsys)
    assert status == 0
    offsets = [out.index(f"\n  {name} ") for name in NAMES]
    assert offsets == sorted(offsets)
    assert [entry["name"] for entry in json.loads(walk(capsys, "--json")[1])] == NAMES


def test_a_lesson_all_at_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    type_in(monkeypatch)
    status, out, err = walk(capsys, "slope")
    assert (status, err) == (0, "")
    for page in lesson_run("slope").pages:
        assert page.title in out
    assert "(9.61 − 9) / 0.1 = 6.1" in out and "✓" in out and "--quiz" in out
    assert walk(capsys, "slope", "--all")[1] == out


def test_enter_leads_from_step_to_step(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    pages = lesson_run("slope").pages
    type_in(monkeypatch, "", terminal=True)  # one Enter, then the end of the input
    _, out, err = walk(capsys, "slope")
    assert pages[1].title in out and pages[2].title not in out and err.count("Enter for the next step") == 2
    type_in(monkeypatch, "", "", "", "", terminal=True)
    assert pages[-1].title in walk(capsys, "slope")[1]


def test_a_quiz_judges_what_is_typed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    exercises = lesson_run("slope").exercises
    type_in(monkeypatch, *(exercise.answer_text for exercise in exercises))
    status, out, _ = walk(capsys, "slope", "--quiz")
    assert status == 0 and f"{len(exercises)} of {len(exercises)} right" in out
    assert all(f"Right: {exercise.working}" in out for exercise in exercises)
    type_in(monkeypatch, "1000", "2000", *(exercise.answer_text for exercise in exercises[1:]))
    status, out, _ = walk(capsys, "slope", "--quiz")
    assert status == 1 and exercises[0].hint in out and f"It is {exercises[0].answer_text}" in out
    type_in(monkeypatch, "1000")
    status, out, _ = walk(capsys, "slope", "--quiz", "--json")
    assert status == 1 and [entry["right"] for entry in json.loads(out)] == [False] * len(exercises)


def test_a_quiz_shows_the_tables_it_asks_about(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    exercises = lesson_run("masks").exercises
    type_in(monkeypatch, *("7" for _ in range(4)))
    _, out, _ = walk(capsys, "masks", "--quiz")
    given = [line for exercise in exercises for line in exercise.given_lines]
    assert given and all("".join(line.split()) in "".join(out.split()) for line in given)
    assert max(map(len, out.splitlines())) <= 80
    assert all(f"It is {exercise.answer_text}" in out for exercise in exercises)


def test_an_unknown_lesson_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = walk(capsys, "slopes")
    assert (status, out) == (2, "") and "did you mean slope" in err
    assert "there is no lesson 'zzzz'; `glassformer walk` lists them all" in walk(capsys, "zzzz")[2]
    assert walk(capsys, "--quiz")[0] == 2


def test_one_lesson_into_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("math_core")
    page, book = tmp_path / "a.html", tmp_path / "a.ipynb"
    status, out, _ = walk(capsys, "slope", "--html", str(page), "--notebook", str(book))
    assert (status, out) == (0, "")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert json.loads(book.read_bytes())["nbformat"] == 4


def test_a_whole_book(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("math_core")
    monkeypatch.setattr(registry, "COURSE", {"Short": ("slope", "norms")})
    folders = tmp_path / "pages", tmp_path / "books"
    assert walk(capsys, "--all", "--html", str(folders[0]), "--notebook", str(folders[1]))[0] == 0
    assert [sorted(path.name for path in folder.iterdir()) for folder in folders] == [
        ["index.html", "norms.html", "slope.html"],
        ["norms.ipynb", "slope.ipynb"],
    ]


def test_a_lesson_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(walk(capsys, "slope", "--json")[1])
    assert data["steps"][0]["parts"][0]["latex"] == "y = m x + b"
