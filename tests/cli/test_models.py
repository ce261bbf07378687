"""`glassformer models`: the table, one tree, JSON, unknown names."""

import json

import pytest

from glassformer.cli.main import main


def test_the_table_lists_every_preset(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    text = capsys.readouterr().out
    assert "gpt2-xl" in text and "1,557,611,200" in text
    assert main(["models", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["llama-7b"] == {"name": "llama-7b", "model": "llama", "parameters": 6_738_415_616}


def test_one_model_prints_as_a_tree(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "transformer-base"]) == 0
    text = capsys.readouterr().out
    assert "0 to 5, each: Block" in text and "weight [512, 2048]" in text
    assert main(["models", "gpt3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["config"]["dim"] == 12288
    assert found["shapes"]["embedding.weight"] == [50257, 12288]


def test_an_unknown_name_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "gtp2"]) == 2
    assert "did you mean gpt2" in capsys.readouterr().err
