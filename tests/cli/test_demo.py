"""`glassformer demo`, small: it trains, translates, shows its work, and speaks JSON."""

import json
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.cli.main import main
from glassformer.training import built_in_translator


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(built_in_translator, "TRAINING", 3000)
    monkeypatch.setattr(built_in_translator, "HELD_OUT", 20)


def test_it_shows_its_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--steps", "3"]) == 0
    shown = capsys.readouterr()
    assert "You are welcome" in shown.out and "cross-attention" in shown.out
    assert "of 20 unseen sentences exactly right; BLEU" in shown.out
    assert "step 3 of 3: loss" in shown.err


def test_it_speaks_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--steps", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["translations"][0][0] == "You are welcome"
    assert 0 <= found["bleu"] <= 100 and found["signature"].startswith("nrefs:1")


def test_the_model_can_be_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--steps", "2", "--out", str(tmp_path / "kept")]) == 0
    assert f'next: glassformer translate {tmp_path / "kept"} "' in capsys.readouterr().out
    assert isinstance(gf.load(tmp_path / "kept").translate("You are welcome", max_new_tokens=3), str)
    assert main(["demo", "--steps", "2", "--out", str(tmp_path / "kept")]) == 2
    shown = capsys.readouterr().err
    assert "already holds a model" in shown and "drawing" not in shown, "before the work"
