"""Llama, Mistral and Qwen2: one native model, three families."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from glassformer.checkpoints.families.family import FieldMap, ModelFamily, classifier_rows, fields
from glassformer.checkpoints.hf_config import HFConfig
from glassformer.checkpoints.tensor_map import Derived, TensorMap, parts
from glassformer.errors import CheckpointError
from glassformer.layers.config import Layers, NotNegative, Positive, Size
from glassformer.layers.model import Model
from glassformer.layers.rotary import ROPE_SCALINGS, RopeScaling, Rotary
from glassformer.models.causal_classifier import BODY
from glassformer.models.llama import LlamaConfig


def _are_frequencies(table: Tensor, model: Model) -> bool:
    """The frequencies of the model, or those before scaling: files have held either."""
    rotary = next(module for module in model.modules() if isinstance(module, Rotary))
    like = torch.empty(0)
    wanted = [scaling.frequencies(rotary.head_dim, rotary.theta, like) for scaling in (rotary.scaling, RopeScaling())]
    room = 1e-2 if table.element_size() < like.element_size() else 1e-4
    return any(table.shape == each.shape and torch.allclose(table.float(), each, rtol=room, atol=0) for each in wanted)


_NORMS = {"attention_norm": "input_layernorm", "feed_forward_norm": "post_attention_layernorm"}
_QKV = {f"attention.{native}": f"self_attn.{native[0]}_proj" for native in ("query", "key", "value")}
_OUTPUT = {"attention.output": "self_attn.o_proj"}
_FEED_FORWARD = {f"feed_forward.{part}": f"mlp.{part}_proj" for part in ("gate", "up", "down")}
_FREQUENCIES = "model.layers.{i}.self_attn.rotary_emb.inv_freq"


def _in_each_layer(names: dict[str, str], tensor: str) -> list[TensorMap]:
    return parts(names, ("stack.blocks.{i}.", "model.layers.{i}."), "layers", [tensor])


def _tensors(config: LlamaConfig) -> list[TensorMap]:
    biased = {
        **(_QKV if config.qkv_bias else {}),
        **(_OUTPUT if config.output_bias else {}),
        **(_FEED_FORWARD if config.feed_forward_bias else {}),
    }
    return [
        TensorMap("embedding.weight", "model.embed_tokens.weight"),
        *_in_each_layer(_NORMS | _QKV | _OUTPUT | _FEED_FORWARD, "weight"),
        *_in_each_layer(biased, "bias"),
        TensorMap("stack.norm.weight", "model.norm.weight"),
        TensorMap("", _FREQUENCIES, derived=Derived("frequencies", _are_frequencies), per="layers"),
        TensorMap("", "lm_head.weight", same_as="model.embed_tokens.weight")
        if config.tie_embeddings
        else TensorMap("output.weight", "lm_head.weight", transposed=True),
    ]


_NUMBER = NotNegative | None
_SCALINGS = {kind: kind for kind in ("default", "linear", "yarn", "llama3")}  # in transformers; the first is none
_SCALING_FIELDS = {
    "factor": "factor",
    "low_factor": "low_freq_factor",
    "high_factor": "high_freq_factor",
    "fast": "beta_fast",
    "slow": "beta_slow",
    "original_length": "original_max_position_embeddings",
}
_OF_OTHER_SCALINGS = {
    *_SCALING_FIELDS.values(), "attention_factor", "mscale", "mscale_all_dim", "truncate", "short_factor", "long_factor"
}  # fmt: skip


def _read_rope(fields: HFConfig, names: Collection[str], config: LlamaConfig) -> LlamaConfig:
    """The base and the scaling of the rotary frequencies, from either table that files have them in."""
    new, old = fields.table("rope_parameters"), fields.table("rope_scaling")
    table = old or new or HFConfig({}, fields.where)
    fields.must("partial_rotary_factor", 1.0, 1, None)
    table.must("partial_rotary_factor", 1.0, 1, None)
    theta = fields.get("rope_theta", Positive, 10000.0)
    if "rope_theta" in table:
        theta = table.get("rope_theta", Positive)
        fields.must("rope_theta", theta, None)
    length = table.whole("original_max_position_embeddings", config.context)
    beside = fields.get("original_max_position_embeddings", Size | None, None)
    length = beside if isinstance(beside, int) else length  # the one beside the table takes precedence
    kind = table.word("rope_type" if "rope_type" in table else "type", _SCALINGS, "default")
    scaling = None
    if kind != "default":
        scaling = ROPE_SCALINGS[kind](**_scaling_values(kind, table, length, config.context))
    table.must("type", None, *_SCALINGS)
    table.rest(_OF_OTHER_SCALINGS)
    return replace(config, rope_theta=theta, rope_scaling=scaling)


def _scaling_values(kind: str, table: HFConfig, length: int, context: int) -> dict[str, object]:
    if kind == "linear":
        return {"factor": table.get("factor", Positive)}
    if kind == "llama3":
        factors = {
            native: table.get(_SCALING_FIELDS[native], Positive) for native in ("factor", "low_factor", "high_factor")
        }
        return {**factors, "original_length": length}
    table.must("attention_factor", None)
    table.must("truncate", True)
    if table.get("mscale", _NUMBER, None) and table.get("mscale_all_dim", _NUMBER, None):
        raise CheckpointError(f"{table.where}: mscale and mscale_all_dim are given, wanted one of them at most")
    factor = table.get("factor", _NUMBER)
    return {
        "factor": context / length if factor is None else factor,
        "original_length": length,
        "fast": table.get("beta_fast", _NUMBER, None) or 32.0,  # zero means the same as null
        "slow": table.get("beta_slow", _NUMBER, None) or 1.0,
    }


def _write_rope(config: LlamaConfig) -> dict[str, object]:
    """The table of rotary parameters."""
    scaling = config.rope_scaling
    words: dict[str, object] = {"rope_theta": config.rope_theta, "rope_type": "default"}
    if scaling is not None:
        kinds = [kind for kind in _SCALINGS if ROPE_SCALINGS.get(kind) is type(scaling)]
        if not kinds:
            raise CheckpointError(f"rope_scaling is {type(scaling).__name__}, for which Hugging Face has no word")
        words["rope_type"] = kinds[0]
        words |= {_SCALING_FIELDS[name]: value for name, value in vars(scaling).items()}
    return {"rope_parameters": words}


def _head_dim(config: LlamaConfig) -> int | None:
    return None if config.dim % config.heads else config.dim // config.heads


_FIELDS: Sequence[FieldMap[LlamaConfig]] = [
    *fields(vocab="vocab_size", context="max_position_embeddings", dim="hidden_size", layers="num_hidden_layers"),
    *fields(heads="num_attention_heads", ffn_dim="intermediate_size"),
    *fields(tie_embeddings="tie_word_embeddings", eps="rms_norm_eps"),
    FieldMap("kv_heads", "num_key_value_heads", otherwise=lambda config: config.heads),
    FieldMap("head_dim", "head_dim", otherwise=_head_dim),
]


def _read_qwen2(fields: HFConfig, names: Collection[str], config: LlamaConfig) -> LlamaConfig:
    window, layers = config.window, config.layers
    full = fields.whole("max_window_layers", 28, Layers)
    if not fields.get("use_sliding_window", bool, False) or full >= layers:
        window = None
    elif full > 0 and window is not None:
        raise CheckpointError(f"{fields.where}: max_window_layers is {full}, wanted 0 or all {layers} layers")
    fields.must("layer_types", None, ["full_attention" if window is None else "sliding_attention"] * layers)
    return replace(_read_rope(fields, names, config), window=window)


def _write_qwen2(config: LlamaConfig) -> dict[str, object]:
    slides = config.window is not None
    return {
        **_write_rope(config),
        "use_sliding_window": slides,
        "max_window_layers": 0 if slides else config.layers,
        "layer_types": ["sliding_attention" if slides else "full_attention"] * config.layers,
    }


def _family(model_type: str, name: str, defaults: LlamaConfig, more: Sequence[FieldMap]) -> ModelFamily[LlamaConfig]:
    return ModelFamily(
        model_type,
        name,
        defaults,
        [*_FIELDS, *more],
        lambda config: classifier_rows(_tensors(config), BODY) if config.head == "classifier" else _tensors(config),
        {f"{name}ForCausalLM": "lm", f"{name}ForSequenceClassification": "classifier"},
        _read_rope,
        _write_rope,
        exceptions={"rope_theta", "rope_scaling", "head", "classes"},
        fixed={"hidden_act": ("silu", "swish")},
        constants={"hidden_act": "silu"},
        harmless={"is_decoder", "pretraining_tp"},  # attention is causal, and a product may be computed in parts
        head=lambda config: config.head,
        classes=lambda config: config.classes if config.head == "classifier" else 0,
    )


_LLAMA = LlamaConfig(vocab=32000, context=2048, dim=4096, layers=32, heads=32, ffn_dim=11008, eps=1e-6)
_MISTRAL = replace(_LLAMA, context=131072, kv_heads=8, ffn_dim=14336, window=4096)
_QWEN2 = replace(_LLAMA, vocab=151936, context=32768, kv_heads=32, ffn_dim=22016, window=4096, qkv_bias=True)
_BIASES = fields(qkv_bias="attention_bias", output_bias="attention_bias", feed_forward_bias="mlp_bias")
_WINDOW = fields(window="sliding_window")
FAMILIES = (
    _family("llama", "Llama", _LLAMA, _BIASES),
    _family("mistral", "Mistral", _MISTRAL, _WINDOW),
    replace(_family("qwen2", "Qwen2", _QWEN2, _WINDOW), read=_read_qwen2, write=_write_qwen2),
)
