"""CLIP, whose config.json holds a table for each of its towers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import cast

from glassformer.checkpoints.families.family import ACTIVATION_WORDS, FieldMap, ModelFamily, are_positions, fields
from glassformer.checkpoints.hf_config import HFConfig
from glassformer.checkpoints.tensor_map import Derived, TensorMap, expand, parts
from glassformer.errors import CheckpointError
from glassformer.layers.config import Count
from glassformer.models.clip import CLIPConfig

_WORDS = {"quick_gelu": "quick_gelu", **ACTIVATION_WORDS}
_BOTH: Sequence[FieldMap[CLIPConfig]] = [
    FieldMap("activation", "hidden_act", words=_WORDS),
    *fields(eps="layer_norm_eps"),
]
_TEXT: Sequence[FieldMap[CLIPConfig]] = [
    *fields(vocab="vocab_size", context="max_position_embeddings", text_dim="hidden_size"),
    *fields(text_layers="num_hidden_layers", text_heads="num_attention_heads", text_ffn_dim="intermediate_size"),
    *_BOTH,
]
_IMAGE: Sequence[FieldMap[CLIPConfig]] = [
    *fields(image_size="image_size", patch_size="patch_size", channels="num_channels", image_dim="hidden_size"),
    *fields(image_layers="num_hidden_layers", image_heads="num_attention_heads", image_ffn_dim="intermediate_size"),
    *_BOTH,
]
_TOWERS: Mapping[str, tuple[str, Sequence[FieldMap[CLIPConfig]]]] = {
    "text_config": ("clip_text_model", _TEXT),
    "vision_config": ("clip_vision_model", _IMAGE),
}
_HIGHEST = 2  # the eos_token_id of the first files, for which transformers reads a text at its highest id
_EOS = 49407  # where text_config names none
_HARMLESS = {  # the projections are those of the whole model; the rest every old file has
    "projection_dim", "id2label", "tie_word_embeddings",
}  # fmt: skip
_BLOCK = {
    **{f"attention.{name}": f"self_attn.{name[0]}_proj" for name in ("query", "key", "value")},
    "attention.output": "self_attn.out_proj",
    "attention_norm": "layer_norm1",
    "feed_forward.up": "mlp.fc1",
    "feed_forward.down": "mlp.fc2",
    "feed_forward_norm": "layer_norm2",
}


def _tensors(config: CLIPConfig) -> list[TensorMap]:
    text, image = "text_model.", "vision_model."
    tables = {"embedding": "token_embedding", "positions": "position_embedding"}
    kernel = (config.image_dim, config.channels, config.patch_size, config.patch_size)
    positions = Derived("positions", are_positions)
    rows = [
        *parts(tables, ("", f"{text}embeddings."), tensors=["weight"], transposed=False),
        TensorMap("", f"{text}embeddings.position_ids", derived=positions),
        *parts(_BLOCK, ("text_stack.blocks.{i}.", f"{text}encoder.layers.{{i}}."), "text_layers"),
        *parts({"text_stack.norm": f"{text}final_layer_norm"}),
        TensorMap("class_token", f"{image}embeddings.class_embedding"),
        TensorMap("patches.projection.weight", f"{image}embeddings.patch_embedding.weight", True, reshaped=kernel),
        TensorMap("image_positions.weight", f"{image}embeddings.position_embedding.weight"),
        TensorMap("", f"{image}embeddings.position_ids", derived=positions),
        *parts({"image_norm": f"{image}pre_layrnorm", "class_norm": f"{image}post_layernorm"}),
        *parts(_BLOCK, ("image_stack.blocks.{i}.", f"{image}encoder.layers.{{i}}."), "image_layers"),
        *parts({"image_projection": "visual_projection", "text_projection": "text_projection"}, tensors=["weight"]),
        TensorMap("log_scale", "logit_scale", reshaped=()),
    ]
    return list(expand(rows, vars(config)))


def _read(table: HFConfig, _names: Collection[str], config: CLIPConfig) -> CLIPConfig:
    """The configuration of both towers; what the older `..._config_dict` says must be the same."""
    values: dict[str, object] = {}
    for name, (kind, rows) in _TOWERS.items():
        tower = table.table(name) or HFConfig({}, f"{table.where}: {name}")
        older = table.table(f"{name}_dict") or HFConfig({}, f"{table.where}: {name}_dict")
        tower.must("model_type", kind)
        tower.must("dropout", 0.0, 0)
        for row in rows:
            value = row.read(tower, config)
            if row.hf in older and row.read(older, config) != value:
                raise CheckpointError(f"{older.where}: {row.hf} differs from {name}, wanted the same")
            if values.setdefault(row.native, value) != value:
                raise CheckpointError(f"{tower.where}: {row.hf} differs from text_config, wanted the same in both")
        if name == "text_config":
            eos = tower.whole("eos_token_id", _EOS, Count)
            values["eos"] = None if eos == _HIGHEST else eos
        tower.rest(_HARMLESS)
    channels = values["channels"]
    if channels != config.channels:  # the usual mean and deviation are those of red, green and blue
        values |= {"image_mean": (0.5,) * channels, "image_std": (0.5,) * channels}  # pyright: ignore[reportOperatorIssue]
    return replace(config, **values)


def _write(config: CLIPConfig) -> dict[str, object]:
    if config.eos == _HIGHEST:
        raise FAMILY_CLIP.refusal(
            "eos", config.eos, f"a token other than {_HIGHEST}, which means the highest in a text"
        )
    found: dict[str, object] = {}
    for name, (kind, rows) in _TOWERS.items():
        table = {row.hf: row.to_hf(row.value(config)) for row in rows}
        found[name] = {"model_type": kind, **table, "projection_dim": config.embedding_dim}
    text = cast(dict[str, object], found["text_config"])
    text |= {"eos_token_id": _HIGHEST if config.eos is None else config.eos, "bos_token_id": None, "pad_token_id": None}
    return found


FAMILY_CLIP = ModelFamily(
    "clip",
    "CLIP",
    CLIPConfig(eos=_EOS),
    fields(embedding_dim="projection_dim"),
    _tensors,
    {"CLIPModel": ""},
    read=_read,
    write=_write,
    exceptions={
        "eos",
        "dropout",
        "image_mean",
        "image_std",
        *(row.native for _, rows in _TOWERS.values() for row in rows),
    },
    constants={"logit_scale_init_value": 2.6592},
    harmless={"logit_scale_init_value"},
)
FAMILIES = (FAMILY_CLIP,)
