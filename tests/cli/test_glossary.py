"""`glassformer glossary`: the field's words."""

import json

import pytest

from glassformer.cli.main import main
from glassformer.views.concepts import concepts


def test_every_word_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("glossary",)) == 0
    text = capsys.readouterr().out
    assert [concept.name for concept in concepts() if concept.name not in text] == []
    assert main(("glossary", "--json")) == 0
    assert [entry["name"] for entry in json.loads(capsys.readouterr().out)] == [each.name for each in concepts()]


@pytest.mark.parametrize("word", ["KV cache", "kv-cache", "KV_Cache", "kv caches"])
def test_one_word_however_it_is_written(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("glossary", word)) == 0
    text = capsys.readouterr().out
    assert text.startswith("KV cache: ") and "glassformer walk decoding" in text


def test_every_word_can_be_looked_up(capsys: pytest.CaptureFixture[str]) -> None:
    for concept in concepts():
        assert main(("glossary", concept.name, "--json")) == 0
        assert json.loads(capsys.readouterr().out)["meaning"] == concept.meaning


def test_an_unknown_word_is_a_usage_error_that_names_a_near_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("glossary", "logitt")) == 2
    assert "did you mean logit" in capsys.readouterr().err
