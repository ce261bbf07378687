"""Every setting says in one line what it means, and its example is a value that it accepts."""

import shlex
import tomllib

import pytest

from glassformer.layers.config import Config, Size, field_notes, setting
from glassformer.models.registry import ARCHITECTURES, config_type
from glassformer.training.config import resolve
from glassformer.training.explain import comment, every_setting, explain
from glassformer.training.registry import FAMILY, keys
from glassformer.training.schema import converted


def test_no_setting_is_without_its_line() -> None:
    for task, family, key in every_setting():
        found = explain(task, family, key)
        assert found.meaning.endswith(".") and "\n" not in found.meaning, f"{task} {family} {key} lacks its meaning"
        assert found.meaning[0].isupper() and len(found.meaning) <= 100
        assert found.accepts and found.default, f"{task} {family} {key}"
        assert len(comment(task, family, key).splitlines()) == 1


BESIDE = {  # settings that another has to ask for
    "model.window": "model.attention=sliding_window",
    "model.dilation": "model.attention=dilated",
    "model.block_size": "model.attention=block_sparse",
}


def test_examples_can_be_typed() -> None:
    for task, family, key in every_setting():
        found = explain(task, family, key)
        value = tomllib.loads(f"value = {found.example}")["value"]
        assert converted(key, value, keys(task, family)[key]) is not None
        (word,) = shlex.split(found.word)
        context = [] if key in (FAMILY, "model.heads") else [f"{FAMILY}={family}", "recipe.steps=8000"]
        context += [BESIDE[key]] if family == "modern" and key in BESIDE else []
        assert resolve(task, words=[*context, word]).origins[key] == "command line"


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_field_of_a_model_has_a_meaning(name: str) -> None:
    config = config_type(ARCHITECTURES[name])
    assert [field for field in config.__dataclass_fields__ if not field_notes(config, field)] == []


def test_a_subclass_that_changes_a_default_keeps_the_meaning() -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True, kw_only=True)
    class One(Config):
        rows: Size = setting(1, "Rows.", 2)
        columns: Size = 1

    @dataclass(frozen=True, kw_only=True)
    class Two(One):
        rows: Size = 5

    assert (Two().rows, field_notes(Two, "rows")["meaning"]) == (5, "Rows.")
    assert field_notes(Two, "columns") == {}
