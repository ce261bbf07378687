"""Standard streams that the shell closed, and warnings without their source lines."""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from glassformer.cli import main as module
from glassformer.cli.streams import standard_streams

PROGRAM = """
import os, sys
from glassformer.cli.streams import standard_streams
with standard_streams():
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


def test_a_warning_is_one_line_of_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    shown = warnings.showwarning
    with standard_streams():
        warnings.simplefilter("always")
        warnings.warn("step 3 is broken;\n  an older one is tried", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "glassformer: warning: step 3 is broken; an older one is tried\n"
    assert warnings.showwarning is shown


def test_commands_run_with_them(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def warn(*words: object, **settings: object) -> int:
        warnings.simplefilter("always")
        warnings.warn("look out", UserWarning, stacklevel=1)
        return 0

    monkeypatch.setattr(module, "run", warn)
    assert module.main([]) == 0
    assert capsys.readouterr().err == "glassformer: warning: look out\n"
