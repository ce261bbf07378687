"""Every code block of the guides runs as it stands, one after the other, in an empty folder."""

import re
import shlex
from pathlib import Path

import pytest

from glassformer.cli.main import main
from tests.house.source import ROOT

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def test_the_guides_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    blocks = BLOCK.findall((ROOT / "docs" / "guides.md").read_text(encoding="utf-8"))
    assert {kind for kind, _ in blocks} == {"python", "sh"} and len(blocks) > 8
    names: dict[str, object] = {}
    for kind, text in blocks:
        if kind == "python":
            exec(compile(text, "guides.md", "exec"), names)
            continue
        for line in text.splitlines():
            program, *words = shlex.split(line)
            assert program == "glassformer" and main(words) == 0, (line, capsys.readouterr().err)
    shown = capsys.readouterr().out
    assert "<Run gpt:" in shown and "<AttentionMaps:" in shown and "good\t" in shown and "bad\t" in shown
