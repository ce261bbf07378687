"""Files that commands write: over their own, and over nothing else."""

import json
import os
from pathlib import Path

import pytest
from safetensors.torch import save_file

from glassformer.checkpoints.save import model_files, save
from glassformer.cli.main import main
from tests.decoding.tiny_generators import words, writer

OUTPUTS = {
    "trace page": (["trace", "gpt", "one two", "--equation", "softmax", "--html", "FILE"], "t.html"),
    "trace data": (["trace", "gpt", "one two", "--equation", "softmax", "--json", "FILE"], "t.json"),
    "lesson page": (["walk", "slope", "--html", "FILE"], "w.html"),
    "notebook": (["walk", "slope", "--notebook", "FILE"], "w.ipynb"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model in it, to work in."""
    monkeypatch.chdir(tmp_path)
    save(writer("gpt"), tmp_path / "gpt", words())
    return tmp_path


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_file_of_its_own_is_replaced_and_no_other(
    output: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, name = OUTPUTS[output]

    def run(file: str) -> int:
        return main([file if word == "FILE" else word for word in command])

    assert run(name) == 0
    first = contents(folder)
    assert run(name) == 0, "its own may be replaced"
    assert contents(folder).keys() == first.keys()
    Path("notes.json").write_text('{"numbers": "mine"}')
    Path("empty.json").touch()
    Path("link.json").symlink_to(folder / "gpt" / "config.json")
    Path("long.json").write_bytes(b"x" * 300_000)
    before = contents(folder)
    for other in ("gpt/model.safetensors", "gpt/config.json", "notes.json", "empty.json", "link.json", "long.json"):
        capsys.readouterr()
        assert run(other) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "was not written by this command: name another file" in line or "does not end in .json" in line
        assert contents(folder) == before


def test_the_numbers_of_a_trace_are_not_written_over_a_model(folder: Path) -> None:
    save_file({"x": writer("gpt").embedding.weight}, "t.numbers.safetensors")
    before = contents(folder)
    assert main(["trace", "gpt", "one", "--html", "t.html", "--json", "t.json"]) == 2
    assert contents(folder) == before, "what cannot all be written is not begun"


def test_the_numbers_of_a_trace_may_be_read_by_all_and_are_no_model(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = os.umask(0o022)
    try:
        assert main(["trace", "gpt", "one", "--json", "t.json"]) == 0
    finally:
        os.umask(before)
    modes = [os.stat(name).st_mode & 0o777 for name in ("t.json", "t.numbers.safetensors")]
    assert modes == [0o644, 0o644]
    assert model_files(folder) == []
    assert main(["convert", "gpt", str(folder)]) == 0, capsys.readouterr().err


def test_all_lessons_are_checked_before_the_first_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from glassformer.course import registry

    few = dict(list(registry.lessons().items())[:2])
    monkeypatch.setattr(registry, "lessons", lambda: few)
    last = list(few)[-1]
    (tmp_path / f"{last}.html").write_text("my own page")
    assert main(["walk", "--html", str(tmp_path)]) == 2
    assert [path.name for path in tmp_path.iterdir()] == [f"{last}.html"]
    assert f"{last}.html: already exists" in capsys.readouterr().err


def test_a_lesson_is_written_and_its_data_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["walk", "slope", "--json", "--html", str(tmp_path / "slope.html")]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "slope"
    assert (tmp_path / "slope.html").exists()
