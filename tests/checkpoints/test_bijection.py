"""F7: a file and a model fit tensor for tensor, or the tensor that does not is named."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from glassformer.checkpoints.load import load
from glassformer.checkpoints.save import save
from glassformer.errors import CheckpointError
from tests.checkpoints.parity_configs import NAMES, PARITY_CONFIGS, assert_equal, contents, shaken
from tests.models.zoo import ZOO, specimen

OURS = ["modern", "lstm", "mlp"]
# One of each table of names; the others differ in configuration alone.
TABLES = [  # of each family one, of BERT two; all configurations are in `make soak`
    "GPT-2", "Llama, all biases", "Qwen2", "BERT, pooler", "BERT, classes", "DistilBERT, masks", "RoBERTa, masks",
    "ALBERT, masks", "T5 1.1", "Marian, SiLU", "BART",
]  # fmt: skip


def stored(name: str, folder: Path) -> Path:
    """A checkpoint of a family, with one layer on each side."""
    if name in OURS:
        save(specimen(name, torch.float32).model, folder)
    else:
        layers = (
            {"layers": 1, "decoder_layers": None} if hasattr(PARITY_CONFIGS[name], "decoder_layers") else {"layers": 1}
        )
        save(shaken(replace(PARITY_CONFIGS[name], **layers)), folder)
    return folder


def changes(tensors: dict[str, Tensor], name: str) -> dict[str, dict[str, Tensor]]:
    """A checkpoint with one tensor dropped, renamed, transposed, doubled or cut."""
    rest = {key: tensor for key, tensor in tensors.items() if key != name}
    tensor = tensors[name]
    found = {
        "dropped": rest,
        "renamed": {**rest, f"{name}x": tensor},
        "doubled": {**tensors, f"{name}.again": tensor.clone()},
        "cut": {**rest, name: tensor[:-1].clone()},
        "nothing": {**rest, name: torch.zeros_like(tensor)},
    }
    if tensor.dim() == 2:
        found["transposed"] = {**rest, name: tensor.T.contiguous()}
    return found


@pytest.mark.parametrize("name", [*TABLES, *OURS])
def test_every_change_of_every_tensor_is_detected(name: str, tmp_path: Path) -> None:
    every_change_is_detected(stored(name, tmp_path))


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_every_change_of_every_tensor_of_every_configuration_is_detected(name: str, tmp_path: Path) -> None:
    save(shaken(PARITY_CONFIGS[name]), tmp_path)
    every_change_is_detected(tmp_path)


def every_change_is_detected(folder: Path) -> None:
    path = folder / "model.safetensors"
    tensors, metadata = contents(path)
    for name in tensors:
        for change, changed in changes(tensors, name).items():
            save_file(changed, path, metadata)
            with pytest.raises(CheckpointError) as caught:
                load(folder)
            assert name in str(caught.value), change
    save_file(tensors, path, metadata)
    load(folder)


@pytest.mark.parametrize("name", ["BERT, pooler", "Qwen2"])
def test_without_checksums_names_and_shapes_still_tell(name: str, tmp_path: Path) -> None:
    folder = stored(name, tmp_path)
    path = folder / "model.safetensors"
    tensors, _ = contents(path)
    for key, tensor in tensors.items():
        for change, changed in changes(tensors, key).items():
            same_shape = change == "nothing" or (change == "transposed" and tensor.shape[0] == tensor.shape[1])
            if not same_shape:
                save_file(changed, path)
                with pytest.raises(CheckpointError, match="needs|no place for|wants|bytes"):
                    load(folder)


def test_a_second_name_must_hold_the_same_numbers(tmp_path: Path) -> None:
    model = shaken(PARITY_CONFIGS["GPT-2"])
    save(model, tmp_path)
    tensors, _ = contents(tmp_path / "model.safetensors")
    table = tensors["transformer.wte.weight"]
    save_file({**tensors, "lm_head.weight": table.clone()}, tmp_path / "model.safetensors")
    assert_equal(load(tmp_path).model, model)
    save_file({**tensors, "lm_head.weight": table + 1}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="lm_head.weight differs from transformer.wte.weight"):
        load(tmp_path)


def test_a_table_under_its_second_name_alone_is_found(tmp_path: Path) -> None:
    model = shaken(PARITY_CONFIGS["Llama, tied, grouped queries"])
    save(model, tmp_path)
    tensors, _ = contents(tmp_path / "model.safetensors")
    tensors["lm_head.weight"] = tensors.pop("model.embed_tokens.weight")
    save_file(tensors, tmp_path / "model.safetensors")
    assert_equal(load(tmp_path).model, model)


def test_names_of_the_bare_model_and_old_names_are_known(tmp_path: Path) -> None:
    model = shaken(PARITY_CONFIGS["GPT-2"])
    save(model, tmp_path)
    tensors, _ = contents(tmp_path / "model.safetensors")
    save_file({name.removeprefix("transformer."): t for name, t in tensors.items()}, tmp_path / "model.safetensors")
    assert_equal(load(tmp_path).model, model)
    model = shaken(PARITY_CONFIGS["BERT, masks, ReLU"])
    save(model, tmp_path)
    tensors, _ = contents(tmp_path / "model.safetensors")
    old = {n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): t
           for n, t in tensors.items()}  # fmt: skip
    save_file(old, tmp_path / "model.safetensors")
    assert_equal(load(tmp_path).model, model)


def test_tables_that_the_model_works_out_are_checked(tmp_path: Path) -> None:
    model = shaken(PARITY_CONFIGS["GPT-2"])
    save(model, tmp_path)
    tensors, _ = contents(tmp_path / "model.safetensors")
    causal = torch.ones(1, 1, 16, 16, dtype=torch.bool).tril()
    extra = {f"transformer.h.{i}.attn.bias": causal.clone() for i in range(2)}
    save_file({**tensors, **extra, "transformer.h.0.attn.masked_bias": torch.tensor(-1e4)},
              tmp_path / "model.safetensors")  # fmt: skip
    assert_equal(load(tmp_path).model, model)
    extra["transformer.h.1.attn.bias"][..., 0, 1] = True
    save_file({**tensors, **extra}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="h.1.attn.bias is not the table of causality"):
        load(tmp_path)


def test_stored_frequencies_must_be_those_of_the_model(tmp_path: Path) -> None:
    for name in ("Llama", "Llama, YaRN"):
        model = shaken(PARITY_CONFIGS[name])
        save(model, tmp_path)
        tensors, _ = contents(tmp_path / "model.safetensors")
        key, base = "model.layers.1.self_attn.rotary_emb.inv_freq", model.config.rope_theta
        plain = base ** -(torch.arange(0, 4, 2) / 4)
        scaled = model.stack.blocks[1].attention.rotary.scaling.frequencies(4, base, plain)
        for right in (plain, scaled, plain.half()):
            save_file({**tensors, key: right.clone()}, tmp_path / "model.safetensors")
            assert_equal(load(tmp_path).model, model)
        for wrong in (torch.tensor([1.0, 0.9]), 1e6 ** -(torch.arange(0, 4, 2) / 4), plain[:1], 1.1 * plain):
            save_file({**tensors, key: wrong.clone()}, tmp_path / "model.safetensors")
            with pytest.raises(CheckpointError, match=f"{key} is not the table of frequencies"):
                load(tmp_path)


WRONG_FIELDS = [
    ("Marian, SiLU", {"d_model": 9}, "dim is 9, wanted an even number"),
    ("T5", {"relative_attention_max_distance": 2}, "max_distance is 2, wanted a whole number, at least"),
    ("GPT-2", {"n_head": None}, "n_head is None, wanted a whole number"),
    ("GPT-2", {"n_embd": None}, "n_embd is None, wanted a whole number"),
    ("GPT-2", {"hidden_size": 8}, "hidden_size is 8, but n_embd is 12"),
    ("BERT", {"directionality": "left"}, "directionality is 'left', wanted 'bidi'"),
    ("BERT, classes", {"num_labels": 4}, "num_labels is 4, wanted 3, as many as id2label has"),
    ("Llama", {"rope_interleaved": True}, "the field 'rope_interleaved', here True, is not one this version supports"),
    ("Qwen2", {"use_mrope": True}, "the field 'use_mrope', here True"),
    ("Llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5, wanted 1.0"),
    ("BART", {"decoder_ffn_dim": 21}, "decoder_ffn_dim differs from encoder_ffn_dim"),
]


@pytest.mark.parametrize(("name", "fields", "says"), WRONG_FIELDS, ids=[says for _, _, says in WRONG_FIELDS])
def test_fields_that_no_model_can_follow_are_named(name: str, fields: dict, says: str, tmp_path: Path) -> None:
    save(shaken(PARITY_CONFIGS[name]), tmp_path)
    table = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(table | fields))
    with pytest.raises(CheckpointError, match=says):
        load(tmp_path)


def test_a_head_that_is_left_out_is_named(tmp_path: Path) -> None:
    model = shaken(PARITY_CONFIGS["BERT, masks, ReLU"])
    save(model, tmp_path)
    tensors, _ = contents(tmp_path / "model.safetensors")
    tensors["bert.pooler.dense.weight"], tensors["bert.pooler.dense.bias"] = torch.ones(12, 12), torch.ones(12)
    tensors["cls.seq_relationship.weight"], tensors["cls.seq_relationship.bias"] = torch.ones(2, 12), torch.ones(2)
    save_file(tensors, tmp_path / "model.safetensors")
    back = load(tmp_path)
    assert_equal(back.model, model)
    assert set(back.left_out) == tensors.keys() - contents_names(model, tmp_path)


def contents_names(model: torch.nn.Module, tmp_path: Path) -> set[str]:
    save(model, tmp_path / "again")
    return set(contents(tmp_path / "again" / "model.safetensors")[0])


def test_shards_and_their_index_must_agree(tmp_path: Path) -> None:
    save(shaken(PARITY_CONFIGS["GPT-2"]), tmp_path, shard_bytes=2000)
    path = tmp_path / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    for name in list(index["weight_map"]):
        for wrong in ({k: v for k, v in index["weight_map"].items() if k != name}, _moved(index["weight_map"], name)):
            path.write_text(json.dumps({**index, "weight_map": wrong}))
            with pytest.raises(CheckpointError, match=name):
                load(tmp_path)
    path.write_text(json.dumps(index))
    load(tmp_path)


def _moved(table: dict[str, str], name: str) -> dict[str, str]:
    return {**table, name: next(file for file in table.values() if file != table[name])}


def test_every_model_of_the_zoo_is_looked_at() -> None:
    assert set(OURS) <= ZOO.keys()
