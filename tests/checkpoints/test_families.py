"""Families as tables: a new one takes its tables alone, and a setting that it has no words for is refused."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from glassformer.checkpoints.families.family import FieldMap, ModelFamily
from glassformer.checkpoints.families.gpt2 import FAMILY_GPT2
from glassformer.checkpoints.huggingface import FAMILIES
from glassformer.checkpoints.load import load
from glassformer.checkpoints.save import save
from glassformer.checkpoints.tensor_map import TensorMap, parts
from glassformer.errors import CheckpointError
from glassformer.layers.config import OneOrMoreLayers
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from tests.checkpoints.parity_configs import assert_equal, contents, shaken

TOY = ModelFamily(
    "toy",
    "Toy",
    GPTConfig(vocab=9, context=8, dim=4, layers=1, heads=1),
    [
        FieldMap("vocab", "words"),
        FieldMap("context", "length"),
        FieldMap("dim", "width", required=True),
        FieldMap("layers", "depth", OneOrMoreLayers),
        FieldMap("heads", "heads", also=("groups",)),
        FieldMap("heads", "key_heads"),
        FieldMap("ffn_dim", "inner", otherwise=lambda config: 4 * config.dim),
        FieldMap("tie_embeddings", "tied"),
        FieldMap("eps", "eps"),
    ],
    lambda _: [
        TensorMap("embedding.weight", "toy.words"),
        TensorMap("positions.weight", "toy.positions"),
        *parts({"attention_norm": "n1", "feed_forward_norm": "n2"}, ("stack.blocks.{i}.", "toy.{i}."), "layers"),
        *parts({"attention.qkv": "qkv", "attention.output": "o"}, ("stack.blocks.{i}.", "toy.{i}."), "layers"),
        *parts({"feed_forward.up": "up", "feed_forward.down": "down"}, ("stack.blocks.{i}.", "toy.{i}."), "layers"),
        *parts({"stack.norm": "toy.norm"}),
    ],
    {"ToyModel": ""},
    fixed={"version": (1, 2)},
    constants={"version": 2},
    harmless={"groups"},
)
CONFIG = GPTConfig(vocab=11, context=8, dim=6, layers=2, heads=3)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.checkpoints.huggingface.FAMILIES", {"toy": TOY})


@pytest.mark.usefixtures("toy")
def test_a_family_is_read_and_written_by_its_tables(tmp_path: Path) -> None:
    model = shaken(CONFIG)
    save(model, tmp_path, format="hf")
    table = json.loads((tmp_path / "config.json").read_text())
    wanted = {"words": 11, "length": 8, "width": 6, "depth": 2, "heads": 3, "groups": 3, "key_heads": 3, "inner": 24}
    assert wanted.items() <= table.items() and table["version"] == 2 and table["architectures"] == ["ToyModel"]
    tensors, _ = contents(tmp_path / "model.safetensors")
    assert tensors["toy.1.qkv.weight"].shape == (18, 6)
    back = load(tmp_path)
    assert back.model.config == CONFIG
    assert_equal(back.model, model)


WRONG = {
    "width": (None, "width is None, wanted a whole number, 1 or more"),
    "key_heads": (2, "key_heads differs from heads, wanted the same number"),
    "version": (3, "version is 3, wanted 1 or 2, the only one this version supports"),
    "depth": (True, "depth is True, wanted a whole number from 1 to 4096"),
    "tied": (1, "tied is 1, wanted true or false"),
    "eps": ("x", "eps is 'x', wanted a number, 0 or more"),
}


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_field_is_named(name: str, tmp_path: Path) -> None:
    save(shaken(CONFIG), tmp_path, format="hf")
    file = tmp_path / "config.json"
    table = json.loads(file.read_text())
    value, says = WRONG[name]
    file.write_text(json.dumps({**table, name: value}))
    with pytest.raises(CheckpointError, match=says):
        load(tmp_path)
    file.write_text(json.dumps({key: item for key, item in table.items() if key != "width"}))
    with pytest.raises(CheckpointError, match="the field width is missing"):
        load(tmp_path)


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"activation": "relu"}, "activation is 'relu', but Toy can only say 'gelu_tanh'"),
        ({"dropout": 0.5}, "dropout is 0.5, but Toy can only say 0.0"),
        ({"layers": 0}, "layers is 0, but Toy can only say a whole number from 1 to 4096"),
    ],
)
def test_a_setting_without_a_field_must_have_its_default(change: dict, says: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=says):
        save(build(replace(CONFIG, **change), device="meta"), tmp_path, format="hf")


@pytest.mark.parametrize("name", FAMILIES)
def test_every_row_names_a_setting_and_no_field_is_read_twice(name: str) -> None:
    family = FAMILIES[name]
    settings = {field.name for field in fields(family.defaults)}
    assert {*family.exceptions, *(row.native for row in family.fields)} <= settings
    pairs = [(row.native, row.hf) for row in family.fields]
    assert len(set(pairs)) == len(pairs)
    assert not {row.hf for row in family.fields} & {*family.fixed, *family.synonyms}


def test_the_order_of_families_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(FAMILIES, "toy", TOY)
    save(shaken(CONFIG), tmp_path / "first")
    assert load(tmp_path / "first").hf_model.family is FAMILY_GPT2


def test_gpt2_also_has_the_name_of_the_context_that_llama_cpp_reads(tmp_path: Path) -> None:
    save(build(CONFIG), tmp_path, format="hf")
    written = json.loads((tmp_path / "config.json").read_text())
    assert written["n_ctx"] == written["n_positions"] == CONFIG.context
