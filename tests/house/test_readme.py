"""What the README shows is what happens."""

import contextlib
import io
import re
import runpy
import shlex
from pathlib import Path

import pytest

from glassformer.cli.main import COMMANDS, app, main
from tests.house.source import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"^```python\n(.*?)^```(?:\s+```text\n(.*?)^```)?", README, re.MULTILINE | re.DOTALL)
SHELL = "".join(re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL))
LINES = [line.partition("#")[0].strip() for line in SHELL.splitlines()]
RUN = [line for line in LINES if line.startswith("glassformer ")]
# Those that need a model, data or minutes stand in plain text, what they do two spaces after them.
PLAIN = "".join(re.findall(r"^```text\n(.*?)^```", README, re.MULTILINE | re.DOTALL))
SHOWN = re.findall(r"^(glassformer (?:(?!  ).)+)", PLAIN, re.MULTILINE)


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 150


def test_it_has_something_to_run() -> None:
    assert PYTHON
    assert {"make demo", "make test"} <= set(LINES)


@pytest.mark.parametrize(("program", "output"), PYTHON)
def test_programs_print_what_stands_under_them(program: str, output: str, tmp_path: Path) -> None:
    path = tmp_path / "readme.py"
    path.write_text(program, encoding="utf-8")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(str(path), run_name="__main__")
    assert printed.getvalue() == output


@pytest.mark.parametrize("line", RUN)
def test_commands_run(line: str) -> None:
    assert main(shlex.split(line)[1:]) == 0


@pytest.mark.parametrize("line", SHOWN)
def test_commands_that_are_only_shown_can_be_read(line: str) -> None:
    command, *_ = app.parse_args(shlex.split(line)[1:], exit_on_error=False, print_error=False)
    assert callable(command)


def test_every_command_is_mentioned() -> None:
    assert {shlex.split(line)[1] for line in (*RUN, *SHOWN)} == set(COMMANDS)


def test_the_map_shows_folders_that_exist() -> None:
    folders = re.findall(r"^(\S+/) ", README, re.MULTILINE)
    assert folders
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []
