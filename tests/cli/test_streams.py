"""What reaches a terminal: text of models and files with its control characters escaped; pipes keep every byte."""

import io
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.table import Table

from glassformer.checkpoints.save import save
from glassformer.cli.main import main
from glassformer.cli.panel import panel
from glassformer.cli.report import talk, write_json, write_styled, write_table
from glassformer.cli.streams import guarded_streams
from glassformer.decoding.completion import Completion
from glassformer.decoding.generate import TextChunk
from glassformer.training.step import Log
from glassformer.views.console import SafeConsole, escaped, escaped_line
from glassformer.views.terminal import render
from tests.decoding.tiny_generators import words, writer

HOSTILE = "a\x1b]0;owned\x07b\x9b31mc\x08d\re\u202ef\u2066g\x7f"
SHOWN = r"a\x1b]0;owned\x07b\u009b31mc\x08d\re\u202ef\u2066g\x7f"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
STYLES = re.compile("\x1b\\[[0-9;]*m")


class Terminal(io.StringIO):
    """A stream that says it is a terminal, and keeps what was written to it."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        """It says so."""
        return True

    @property
    def text(self) -> str:
        """All that was written, less the colors."""
        return STYLES.sub("", self.getvalue())


@contextmanager
def on_terminal() -> Iterator[Terminal]:
    """A terminal in place of standard output and standard error."""
    shown = Terminal()
    with redirect_stdout(shown), redirect_stderr(shown):
        yield shown


@given(st.text(st.characters()))
@example(HOSTILE)
def test_nothing_but_line_feeds_and_tabs_controls_a_terminal(text: str) -> None:
    shown = escaped(text)
    assert not RAW.search(shown)
    assert shown == escaped(shown), "an escape is not escaped again"
    assert not re.search("[\n\t]", escaped_line(text))
    shown.encode()  # which half of a surrogate pair would not let
    if not RAW.search(text) and not re.search("[\ud800-\udfff]", text):
        assert shown == text


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models on disk."""
    folder = tmp_path_factory.mktemp("models")
    save(writer("gpt"), folder / "gpt", words())
    save(writer("seq2seq"), folder / "seq2seq", words())
    return folder


def hostile_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every model write hostile text, and every token one."""

    def texts(model: object, tokenizer: object, prompts: Sequence[object], config: object) -> list[Completion]:
        return [Completion(f"{HOSTILE}\n\tline", [], [], "stop")] * len(prompts)

    monkeypatch.setattr("glassformer.decoding.generate.write_all", texts)
    monkeypatch.setattr("glassformer.interface.stream", lambda *_: iter([TextChunk(0, f"{HOSTILE}\n\tline", "stop")]))
    monkeypatch.setattr("glassformer.text.tokenizer.Tokenizer.token", lambda self, id: HOSTILE)


COMMANDS = {
    "generate": ["generate", "gpt", "one"],
    "stream": ["generate", "gpt", "one", "--stream"],
    "translate": ["translate", "seq2seq", "one"],
    "trace": ["trace", "gpt", "one two", "--layer", "0", "--equation", "*.weights"],
    "no such model": ["generate", HOSTILE, "one"],
    "no such command": [HOSTILE],
    "convert": ["convert", "gpt", f"copy {HOSTILE}", "--json"],
    "traceback": ["generate", HOSTILE, "one", "--debug"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_lets_a_control_character_through(
    command: str, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folders)
    monkeypatch.setenv("COLUMNS", "200")
    hostile_model(monkeypatch)
    with on_terminal() as terminal:
        main(COMMANDS[command])
    assert r"a\x1b]0;owned" in terminal.text  # a view leaves out the bell, a translation the return
    assert not RAW.search(terminal.text)
    if command in ("generate", "stream"):
        assert f"{SHOWN}\n\tline\n" in terminal.text


def test_generated_text_is_kept_to_the_byte_in_a_pipe(
    folders: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folders)
    hostile_model(monkeypatch)
    for command in ("generate", "stream"):
        assert main(COMMANDS[command]) == 0
        assert capsys.readouterr().out == f"{HOSTILE}\n\tline\n"


def test_tables_views_panels_and_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    table = Table()
    table.add_row(HOSTILE)
    with on_terminal() as terminal, guarded_streams():
        write_table(("class", "F1"), [(HOSTILE, "1.0")])
        write_styled(render(table, 200, color=True))
        write_json({"text": HOSTILE})
        talk(f"two\nlines {HOSTILE}")
        SafeConsole(stderr=True).print(f"in color {HOSTILE}", style="red")
        with panel(10) as display:
            display.update(Log(1, 3.0, 1e-3, 2.0, 64, note=f"in a panel {HOSTILE}", seconds=1.0, speed=64.0))
    text = re.sub("\x1b\\[(\\?25[lh]|2K|1A)|\r", "", terminal.text)  # what the panel itself moves the cursor by
    assert not RAW.search(text)
    assert text.count(r"a\x1b]0;owned") >= 4 and r"two\nlines a" in text and "in a panel" in text


def test_a_closed_stream_is_written_to_in_vain() -> None:
    with redirect_stdout(None), redirect_stderr(None):
        assert main(["equations", "softmx"]) == 2
        assert main(["equations", "softmax"]) == 0
        assert sys.stdout is None


def test_a_warning_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def warn() -> list[object]:
        warnings.warn(f"a strange\nthing {HOSTILE}", UserWarning, stacklevel=2)
        return []

    monkeypatch.setattr("glassformer.cli.cached_reference.cached_entries", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert main(["equations", "--json"]) == 0
    assert capsys.readouterr().err.startswith(r"glassformer: warning: a strange thing a\x1b]0;owned")


PROGRAM = """
import os, sys
from glassformer.cli.streams import guarded_streams
with guarded_streams():
    print("talk", file=sys.stderr)
    print("data")
    sys.stdout.flush()
    with open(sys.argv[1], "w") as file:
        assert file.fileno() > 2, "a file must not be where others write their errors"
        os.write(2, b"of a library")
        file.write(str(sys.stdin is None))
"""


@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams_lead_nowhere(closed: str, tmp_path: Path) -> None:
    command = f"exec '{sys.executable}' -c '{PROGRAM}' '{tmp_path / 'file'}' {closed}"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "file").read_text() == str("<&-" in closed)
    assert done.stdout == ("" if " >&-" in f" {closed}" else "data\n")
    assert done.stderr == ("" if "2>&-" in closed else "talk\nof a library")
