"""The command line: what it writes where, and the status it ends with."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.cli import report
from glassformer.cli.main import COMMANDS, app, main
from glassformer.views.reference import flops_text
from glassformer.views.unicode_math import unicode_math


def outcome(*words: str) -> int:
    """The exit status of a command line, whichever way it ends."""
    try:
        return main(words)
    except SystemExit as end:
        assert isinstance(end.code, int)
        return end.code


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make `glassformer equations` fail in a given way."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("glassformer.cli.cached_reference.cached_entries", fail)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome("--help") == 0
    text = capsys.readouterr().out
    assert [name for name in COMMANDS if name not in text] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_the_command_says(name: str) -> None:
    command = app[name].default_command
    assert command is not None
    assert (command.__doc__ or "").partition("\n")[0] == COMMANDS[name]


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(flag) == 0
    assert capsys.readouterr().out.strip() == gf.__version__


@pytest.mark.parametrize("words", [["help"], ["help", "equations"]])
def test_help_is_a_command_too(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(*words) == 0
    text = capsys.readouterr().out
    for flag in ("--help", "-h"):
        assert outcome(*words[1:], flag) == 0
        assert capsys.readouterr().out == text


def test_quick_reference_names_every_equation(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome("equations") == 0
    words = capsys.readouterr().out.split()
    assert [name for name in gf.catalog() if name not in words] == []


def test_quick_reference_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome("equations", "--json") == 0
    entries = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in entries] == list(gf.catalog())
    assert all(entry["latex"] and entry["meaning"] and entry["symbols"] for entry in entries)


def test_one_equation_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome("equations", "softmax") == 0
    text = " ".join(capsys.readouterr().out.split())  # however the lines are wrapped
    softmax = gf.equations.softmax
    assert softmax.gradient is not None
    formulas = [" ".join(unicode_math(latex).split()) for latex in (softmax.latex, softmax.gradient.latex)]
    parts = [*formulas, softmax.meaning, softmax.intuition, flops_text(softmax)]
    assert [part for part in parts if part not in text] == []
    assert [symbol.meaning for symbol in softmax.symbols if symbol.meaning not in text] == []


def test_one_equation_says_where_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome("equations", "softmax", "--json") == 0
    entry = json.loads(capsys.readouterr().out)
    with open(entry["file"], encoding="utf-8") as file:
        assert file.readlines()[entry["line"] - 1].startswith("@equation")
    assert entry["theme"] == "softmax"


def test_an_unknown_equation_is_bad_use_and_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome("equations", "softmx") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "did you mean softmax" in err


def test_a_name_like_no_other_points_to_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome("equations", "qqqqqq") == 2
    assert "`glassformer equations` lists them all" in capsys.readouterr().err


BAD_USE = [
    (["equatins"], 'unknown command "equatins"; did you mean equations?'),
    (["equatins", "--help"], 'unknown command "equatins"; did you mean equations?'),
    (["--help", "equatins"], 'unknown command "equatins"; did you mean equations?'),
    (["help", "equatins"], 'unknown command "equatins"; did you mean equations?'),
    (["qqqqq"], ", ".join(COMMANDS)),
    (["--debugg"], 'unknown command "--debugg"; did you mean --debug?'),
    (["generate", "a model", "a prompt", "--", "--max-new-tokens", "5"], "--max-new-tokens comes after `--`"),
    (["equations", "--jsn"], "Unknown option: --jsn. Did you mean --json?"),
    (["equations", "relu", "gelu"], "unexpected argument: gelu"),
    (["generate"], "requires an argument"),
    (["generate", "a model", "a prompt", "--max-new-tokens", "many"], "many"),
]


@pytest.mark.parametrize(("words", "message"), BAD_USE)
def test_bad_use_ends_with_two_and_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert outcome(*words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("glassformer: error: ")
    assert message in err


def test_quiet_and_verbose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["walk", "slope", "--html", "x.html"], ["walk", "slope", "--html", "x.html", "--verbose"]):
        assert main(words) == 0
        assert "wrote 1 lesson" in capsys.readouterr().err
    for words in (["-q", "walk", "slope", "--html", "x.html"], ["walk", "slope", "--html", "x.html", "--quiet"]):
        assert main(words) == 0
        assert capsys.readouterr().err == ""
    assert main(["equations", "nothing", "-q"]) == 2
    assert capsys.readouterr().err.startswith("glassformer: error: ")
    assert main(["equations", "-q", "-v"]) == 2
    assert "--quiet and --verbose are both given" in capsys.readouterr().err


def test_a_run_is_quiet_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("one two three\n" * 40)
    small = "model.dim=8 model.layers=1 model.heads=2 data.max_length=8 recipe.steps=2 tokenizer.kind=characters"
    assert main(["train", "gpt", "-q", "-d", "text.txt", "-o", "run", *small.split()]) == 0
    out, err = capsys.readouterr()
    assert "perplexity" in out and err == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_command_and_its_options(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert [name for name in COMMANDS if name not in script] == []
    assert "max-new-tokens" in script and "dry-run" in script


def test_equations_are_found_by_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["equations", "--search", "Padding MASK", "--json"]) == 0
    found = [entry["name"] for entry in json.loads(capsys.readouterr().out)]
    assert "padding_mask" in found and len(found) < 30
    assert main(["equations", "--search", "padding_mask"]) == 0
    assert "padding_mask" in capsys.readouterr().out
    for words in (["--search", "qqqq"], ["softmax", "--search", "mask"]):
        assert main(["equations", *words]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("encoding", ["ascii", "latin-1:strict"])
def test_it_writes_utf8_whatever_the_locale(encoding: str) -> None:
    program = [sys.executable, "-m", "glassformer", "equations"]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(program, env=environment, capture_output=True, check=True)
    assert not done.stdout.decode("utf-8").isascii()


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, gf.EquationError("softmax: z is empty"))
    assert outcome("equations", "softmax") == 1
    assert capsys.readouterr().err == "glassformer: error: softmax: z is empty\n"


def test_even_an_unexpected_one(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, KeyError("z"))
    assert outcome("equations", "softmax") == 1
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert "KeyError: 'z'" in err
    assert "--debug" in err


def test_even_from_a_command_that_cannot_be_loaded() -> None:
    program = (
        "import sys; sys.modules['glassformer.cli.reference'] = None; from glassformer.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program, "equations"], capture_output=True, text=True, check=False)
    assert len(done.stderr.splitlines()) == 1
    assert "glassformer.cli.reference" in done.stderr


@pytest.mark.parametrize("words", [["--debug", "equations", "softmax"], ["equations", "softmax", "--debug"]])
def test_debug_shows_the_traceback_and_keeps_the_status(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for error, status in ((KeyError("z"), 1), (report.UsageError("no such thing"), 2)):
        failing(monkeypatch, error)
        assert main(words) == status
        err = capsys.readouterr().err
        assert err.startswith("Traceback (most recent call last):") and "in fail" in err
        assert err.splitlines()[-1].startswith("glassformer: ")


def test_interruption_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, KeyboardInterrupt())
    assert outcome("equations", "softmax") == 130


@pytest.mark.parametrize("words", [["equations"], ["equations", "softmax"]], ids=["more than a buffer", "less"])
def test_a_closed_pipe_ends_quietly(words: list[str]) -> None:
    program = [sys.executable, "-m", "glassformer", *words]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(program, env=buffered, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_json_has_no_word_for_what_is_not_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    report.write_json({"nan": float("nan"), "infinity": float("inf"), "one": 1.0})
    assert json.loads(capsys.readouterr().out) == {"nan": None, "infinity": None, "one": 1.0}


def test_cells_are_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    report.write_table(("shape",), [("[bold]",), (":smile:",)])
    assert {"[bold]", ":smile:"} <= set(capsys.readouterr().out.split())


def test_a_long_cell_is_written_whole(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    report.write_table(("name", "formula"), [("relative_position_bucket", "z" * 100)])
    lines = capsys.readouterr().out.splitlines()
    assert "".join(lines).count("z") == 100
    assert any("relative_position_bucket" in line for line in lines)
    assert max(map(len, lines)) <= 40


@pytest.mark.parametrize(("no_color", "colored"), [("1", False), ("", True)])
def test_no_color_is_respected(no_color: str, colored: bool) -> None:
    environment = {**os.environ, "FORCE_COLOR": "1", "NO_COLOR": no_color}
    program = [sys.executable, "-m", "glassformer", "--help"]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    assert ("\x1b[3" in done.stdout) is colored
