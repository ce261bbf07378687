"""LoRA adapters in and out: every family, beside a base model or apart, another head, and files that are refused."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import glassformer as gf
from glassformer.checkpoints.adapter import PREFIX
from glassformer.checkpoints.load import load
from glassformer.checkpoints.save import save
from glassformer.checkpoints.save_adapter import save_adapter
from glassformer.checkpoints.tensor_files import ADAPTER_CONFIG, ADAPTER_WEIGHTS, write_tensors
from glassformer.errors import CheckpointError, GlassformerError, PathError
from glassformer.layers.lora import add_lora, merged
from glassformer.layers.model import Model
from glassformer.models.encoder import EncoderConfig
from glassformer.models.gpt import GPTConfig
from glassformer.models.modern import ModernConfig
from glassformer.text.learn_tokenizer import learn_tokenizer
from tests.checkpoints.parity_configs import NAMES, PARITY_CONFIGS, assert_equal, contents, shaken

GPT = GPTConfig(vocab=40, context=16, dim=8, layers=2, heads=2)


def adapted(model: Model, targets: str = "*attention, feed_forward.up") -> Model:
    """The model with updates that matter."""
    for layer in add_lora(model, targets, rank=2, alpha=3.0).values():
        layer.lora_B.data.normal_(0, 0.3, generator=torch.Generator().manual_seed(1))
    return model


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path, Model]:
    """A base, an adapter for it, and the model with both."""
    model = shaken(GPT)
    save(model, tmp_path / "base")
    save_adapter(adapted(model), tmp_path / "adapter", tmp_path / "base")
    return tmp_path / "base", tmp_path / "adapter", model


@pytest.mark.parametrize("name", NAMES)
def test_an_adapter_of_every_family_comes_back_to_the_bit(name: str, tmp_path: Path) -> None:
    model = shaken(PARITY_CONFIGS[name])
    save(model, tmp_path / "base", format="hf")
    save_adapter(adapted(model), tmp_path / "adapter", tmp_path / "base")
    tensors, _ = contents(tmp_path / "adapter" / ADAPTER_WEIGHTS)
    assert all(key.startswith(PREFIX) and key.endswith((".lora_A.weight", ".lora_B.weight")) for key in tensors)
    assert not any("stack" in key or "feed_forward" in key for key in tensors), "a native name"
    for back in (load(tmp_path / "adapter"), load(tmp_path / "base", adapter=tmp_path / "adapter")):
        assert_equal(back.model, merged(model))
        assert back.hf_model is not None


def test_a_model_without_a_family_keeps_its_native_names(tmp_path: Path) -> None:
    model = shaken(ModernConfig(vocab=13, context=16, dim=8, layers=2, heads=2))
    save(model, tmp_path / "base")
    save_adapter(adapted(model), tmp_path / "adapter", tmp_path / "base")
    assert_equal(load(tmp_path / "adapter").model, merged(model))


def test_the_fused_projection_of_gpt_2_is_c_attn(folders: tuple[Path, Path, Model]) -> None:
    base, adapter, model = folders
    tensors, _ = contents(adapter / ADAPTER_WEIGHTS)
    name = "base_model.model.transformer.h.1.attn.c_attn"
    layer = model.get_submodule("stack.blocks.1.attention.qkv")
    assert torch.equal(tensors[f"{name}.lora_A.weight"], layer.lora_A.T)
    assert torch.equal(tensors[f"{name}.lora_B.weight"], layer.lora_B.T)
    table = json.loads((adapter / ADAPTER_CONFIG).read_text())
    assert table["target_modules"] == ["attn.c_attn", "attn.c_proj", "mlp.c_fc"] and table["fan_in_fan_out"] is True
    assert (table["r"], table["lora_alpha"], table["task_type"]) == (2, 3.0, "CAUSAL_LM")
    assert table["base_model_name_or_path"] == str(base) and table["modules_to_save"] is None


def test_layers_of_one_block_are_named_in_full(tmp_path: Path) -> None:
    model = shaken(GPT)
    save(model, tmp_path / "base")
    save_adapter(adapted(model, "blocks.0.attention.qkv"), tmp_path, tmp_path / "base")
    table = json.loads((tmp_path / ADAPTER_CONFIG).read_text())
    assert table["target_modules"] == ["transformer.h.0.attn.c_attn"]


def test_an_adapter_beside_its_base_is_merged_and_saving_there_leaves_no_second_update(
    folders: tuple[Path, Path, Model],
) -> None:
    base, adapter, model = folders
    shutil.copy(adapter / ADAPTER_CONFIG, base)
    shutil.copy(adapter / ADAPTER_WEIGHTS, base)
    found = gf.load(base)
    assert_equal(found.model, merged(model))
    found.save(base)
    assert not (base / ADAPTER_CONFIG).exists() and not (base / ADAPTER_WEIGHTS).exists()
    assert_equal(gf.load(base).model, merged(model))


def test_what_is_saved_of_a_model_with_lora_is_merged(tmp_path: Path) -> None:
    model = adapted(shaken(GPT))
    save(model, tmp_path)
    assert_equal(load(tmp_path).model, merged(model))


def test_the_tokenizer_beside_an_adapter_comes_with_it_and_generation_reads_it_again(tmp_path: Path) -> None:
    tokenizer = learn_tokenizer(["a rose is a rose"], "characters", 40)
    model = shaken(replace(GPT, vocab=tokenizer.vocab_size))
    save(model, tmp_path / "base")
    save_adapter(adapted(model), tmp_path / "adapter", tmp_path / "base", tokenizer=tokenizer)
    loaded = gf.load(tmp_path / "base", adapter=tmp_path / "adapter")
    text = loaded.generate("a r", max_new_tokens=5).text
    assert text == gf.generate(merged(model), tokenizer, "a r", gf.GenerationConfig(max_new_tokens=5))[0].text
    assert_equal(loaded.model, merged(model))  # read again, since generation has converted it


def test_a_new_head_travels_with_the_adapter(tmp_path: Path) -> None:
    sizes = {"vocab": 29, "context": 16, "dim": 12, "layers": 2, "heads": 3, "ffn_dim": 20}
    base = shaken(EncoderConfig(**sizes, head="masked"))
    save(base, tmp_path / "base")
    model = shaken(EncoderConfig(**sizes, head="classifier", classes=3), seed=1)
    body = {name: value for name, value in base.state_dict().items() if name in model.state_dict()}
    model.load_state_dict(model.state_dict() | body)
    save_adapter(adapted(model), tmp_path / "a", tmp_path / "base", "pooler, classifier", labels=("x", "y", "z"))
    table = json.loads((tmp_path / "a" / ADAPTER_CONFIG).read_text())
    assert table["modules_to_save"] == ["bert.pooler", "classifier"] and table["task_type"] == "SEQ_CLS"
    back = load(tmp_path / "a")
    assert back.labels == ("x", "y", "z") and back.model.config == model.config
    assert_equal(back.model, merged(model))
    save(back.model, tmp_path / "merged", labels=back.labels, like=back.hf_model)
    assert_equal(load(tmp_path / "merged").model, merged(model))


def test_half_precision_and_other_dtypes(folders: tuple[Path, Path, Model]) -> None:
    _, adapter, model = folders
    for dtype in (torch.bfloat16, torch.float64):
        found = load(adapter, dtype=dtype).model
        assert {p.dtype for p in found.parameters()} == {dtype}
        assert_close(
            found.stack.blocks[0].attention.qkv.weight.double(),
            merged(model).stack.blocks[0].attention.qkv.weight.double(),
            rtol=0.02,
            atol=0.02,
        )


def rewrite(folder: Path, fields: Mapping[str, object], tensors: Mapping[str, Tensor | None] | None = None) -> None:
    """The adapter with some fields and tensors changed; a tensor of None is left out."""
    table = json.loads((folder / ADAPTER_CONFIG).read_text())
    (folder / ADAPTER_CONFIG).write_text(json.dumps(table | dict(fields)))
    if tensors is not None:
        found, _ = contents(folder / ADAPTER_WEIGHTS)
        changed = {name: value for name, value in {**found, **tensors}.items() if value is not None}
        write_tensors(folder / ADAPTER_WEIGHTS, changed, {})


def test_rank_stabilized_lora_divides_by_the_root_of_the_rank(folders: tuple[Path, Path, Model]) -> None:
    _, adapter, model = folders
    rewrite(adapter, {"use_rslora": True})
    for layer in model.modules():
        if hasattr(layer, "lora_A"):
            layer.alpha = 3.0 * 2**0.5
    assert_equal(load(adapter).model, merged(model))


C_ATTN = f"{PREFIX}transformer.h.0.attn.c_attn"


@pytest.mark.parametrize(
    ("fields", "tensors", "said"),
    [
        ({"peft_type": "IA3"}, None, "peft_type is 'IA3', wanted 'LORA'"),
        ({"use_dora": True}, None, "use_dora is True, which is not plain LoRA"),
        ({"alpha_pattern": {"c_attn": 3}}, None, "alpha_pattern is {'c_attn': 3}, which is not plain LoRA"),
        ({"init_lora_weights": "pissa"}, None, "init_lora_weights is 'pissa', which changes the base model"),
        ({"lora_alpha": 0}, None, "lora_alpha is 0, wanted a number above 0"),
        ({"lora_alpha": None}, None, "lora_alpha is None, wanted a number above 0"),
        ({"some_new_way": "on"}, None, "some_new_way is 'on', which is not plain LoRA"),
        ({"base_model_name_or_path": "gpt2"}, None, r"is an adapter of 'gpt2', which is not a folder here; load it w"),
        ({"base_model_name_or_path": None}, None, "is an adapter of '', which is not a folder here"),
        ({}, {f"{C_ATTN}.lora_A.weight": None}, "has no lora_A for stack.blocks.0.attention.qkv.weight"),
        ({}, {f"{C_ATTN}.lora_A.weight": torch.ones(2, 9)}, r"do not fit: \[9, 2\] and \[2, 24\] do not make an upd"),
        ({}, {f"{PREFIX}transformer.h.7.attn.c_attn.lora_A.weight": torch.ones(2, 8)}, "which this model has no place"),
        ({}, {f"{PREFIX}score.weight": torch.ones(2, 8)}, "holds base_model.model.score.weight, which this model has"),
        ({}, {f"{PREFIX}transformer.wpe.weight": torch.ones(3, 8)}, r"has shape \[3, 8\], but positions.weight is \[1"),
    ],
)
def test_what_is_not_plain_lora_for_this_model_is_refused(
    fields: Mapping[str, object], tensors: Mapping[str, Tensor | None] | None, said: str, folders: tuple
) -> None:
    _, adapter, _ = folders
    rewrite(adapter, fields, tensors)
    with pytest.raises(GlassformerError, match=said) as caught:
        load(adapter)
    assert "\n" not in str(caught.value)


def test_folders_without_an_adapter_pickles_and_adapters_of_themselves_are_refused(folders: tuple) -> None:
    base, adapter, _ = folders
    with pytest.raises(PathError, match=r"base: has no adapter_config.json, so it holds no adapter"):
        load(base, adapter=base)
    rewrite(adapter, {"base_model_name_or_path": str(adapter)})
    with pytest.raises(PathError, match="has no config.json"):
        load(adapter)
    (adapter / ADAPTER_WEIGHTS).rename(adapter / "adapter_model.bin")
    with pytest.raises(PathError, match="is a pickle"):
        load(base, adapter=adapter)


def test_what_an_adapter_cannot_hold_is_refused_when_it_is_saved(folders: tuple, tmp_path: Path) -> None:
    base, _, model = folders
    with pytest.raises(
        CheckpointError, match="wte.weight is tied to lm_head.weight, .*; save the merged model instead"
    ):
        save_adapter(model, tmp_path / "x", base, "embedding")
    with pytest.raises(CheckpointError, match="the model has no LoRA layers"):
        save_adapter(shaken(GPT), tmp_path / "x", base)
    assert not (tmp_path / "x").exists()
