"""Examples are short, and run."""

import os
import runpy
import sys
from pathlib import Path

import pytest

from tests.house.source import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LOCAL = ("20_studio",)  # these talk to a server on this machine


@pytest.mark.parametrize(
    "path",
    [pytest.param(each, id=each.stem, marks=[pytest.mark.enable_socket] * (each.stem in LOCAL)) for each in EXAMPLES],
)
def test_an_example_is_short_and_runs(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 60
    monkeypatch.setattr(sys, "argv", [str(path)])
    monkeypatch.setenv("GLASSFORMER_CACHE", os.environ["GLASSFORMER_CACHE"])  # what an example sets ends with it
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


def test_there_is_an_example() -> None:
    assert EXAMPLES
