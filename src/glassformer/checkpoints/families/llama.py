"""Llama, Mistral and Qwen2: one model of ours, three names there."""

from collections.abc import Collection
from dataclasses import replace

from glassformer.checkpoints.families.family import ModelFamily, require
from glassformer.checkpoints.hf_config import MOST_LAYERS, MOST_PLACES, MOST_TOKENS, HFConfig
from glassformer.checkpoints.names.llama import (
    LLAMA,
    LLAMA_BIASES,
    LLAMA_FEED_FORWARD_BIASES,
    LLAMA_OUTPUT_BIAS,
    LLAMA_TIED,
    LLAMA_UNTIED,
)
from glassformer.checkpoints.tensor_map import TensorMap
from glassformer.errors import CheckpointError
from glassformer.layers.rotary import LinearScaling, Llama3Scaling, RopeScaling, YarnScaling
from glassformer.models.llama import LlamaConfig


def _read_rope(fields: HFConfig, context: int) -> tuple[float, RopeScaling | None]:
    """The base of the rotary frequencies and how they are stretched, from either place where files say it."""
    new, old = fields.table("rope_parameters"), fields.table("rope_scaling")
    table = old or new or HFConfig({}, fields.where)
    fields.must("partial_rotary_factor", 1.0, 1, None)
    table.must("partial_rotary_factor", 1.0, 1, None)
    base = fields.number("rope_theta", 10000.0)
    if "rope_theta" in table:
        base = table.number("rope_theta")
        fields.must("rope_theta", base, None)
    # Where the length lies beside the table, it goes before the one in the table.
    length = fields.maybe_whole("original_max_position_embeddings", most=MOST_PLACES)
    length = length or table.whole("original_max_position_embeddings", context, most=MOST_PLACES)
    kind = table.choice("rope_type" if "rope_type" in table else "type", "default", _ROPES)
    scaling = kind(table, length, context)
    table.must("type", None, *_ROPES)
    table.rest(_OTHER_ROPES)
    return base, scaling


def _read_yarn(table: HFConfig, length: int, context: int) -> YarnScaling:
    table.must("attention_factor", None)
    if table.maybe_number("mscale") and table.maybe_number("mscale_all_dim"):
        raise CheckpointError(f"{table.where}: mscale and mscale_all_dim are given, wanted one of them at most")
    table.must("truncate", True)
    return YarnScaling(
        factor=context / length if table.is_null("factor") else table.number("factor"),
        original_length=length,
        fast=table.maybe_number("beta_fast") or 32.0,  # zero means the same as nothing
        slow=table.maybe_number("beta_slow") or 1.0,
    )


def _read_llama3(table: HFConfig, length: int, _context: int) -> Llama3Scaling:
    return Llama3Scaling(
        factor=table.number("factor"),
        low_factor=table.number("low_freq_factor"),
        high_factor=table.number("high_freq_factor"),
        original_length=length,
    )


_ROPES = {
    "default": lambda _table, _length, _context: None,
    "linear": lambda table, _length, _context: LinearScaling(factor=table.number("factor")),
    "yarn": _read_yarn,
    "llama3": _read_llama3,
}

# What one kind of scaling says is nothing to another.
_OTHER_ROPES = {
    "factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "mscale",
    "mscale_all_dim", "truncate", "low_freq_factor", "high_freq_factor", "short_factor", "long_factor",
}  # fmt: skip


def _write_rope(config: LlamaConfig) -> dict[str, object]:
    """Their table of rotary parameters."""
    match config.rope_scaling:
        case None:
            words: dict[str, object] = {"rope_type": "default"}
        case LinearScaling(factor=factor):
            words = {"rope_type": "linear", "factor": factor}
        case YarnScaling() as yarn:
            words = {"rope_type": "yarn", "factor": yarn.factor, "beta_fast": yarn.fast, "beta_slow": yarn.slow}
            words["original_max_position_embeddings"] = yarn.original_length
        case Llama3Scaling() as three:
            words = {"rope_type": "llama3", "factor": three.factor, "low_freq_factor": three.low_factor}
            words["high_freq_factor"] = three.high_factor
            words["original_max_position_embeddings"] = three.original_length
        case other:
            raise CheckpointError(f"scaling is {type(other).__name__}, for which Hugging Face has no word")
    return {"rope_theta": config.rope_theta, **words}


def _read_shared(fields: HFConfig, default: LlamaConfig) -> LlamaConfig:
    """What the three have in common; a missing size is what the family has by default."""
    fields.must("hidden_act", "silu", "swish")
    context = fields.whole("max_position_embeddings", default.context, most=MOST_PLACES)
    base, scaling = _read_rope(fields, context)
    dim, heads = fields.whole("hidden_size", default.dim), fields.whole("num_attention_heads", default.heads)
    kv_heads, head_dim = fields.maybe_whole("num_key_value_heads", default.kv_heads), fields.maybe_whole("head_dim")
    return LlamaConfig(
        vocab=fields.whole("vocab_size", default.vocab, most=MOST_TOKENS),
        context=context,
        dim=dim,
        layers=fields.layers("num_hidden_layers", default.layers),
        heads=heads,
        kv_heads=None if kv_heads == heads else kv_heads,
        head_dim=None if head_dim == dim / heads else head_dim,
        ffn_dim=fields.whole("intermediate_size", default.ffn_dim),
        rope_theta=base,
        rope_scaling=scaling,
        tie_embeddings=fields.flag("tie_word_embeddings", False),
        eps=fields.number("rms_norm_eps", 1e-6),
    )


def _write_shared(config: LlamaConfig) -> dict[str, object]:
    return {
        "vocab_size": config.vocab,
        "max_position_embeddings": config.context,
        "hidden_size": config.dim,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads or config.heads,
        "head_dim": config.head_dim or config.dim // config.heads,
        "intermediate_size": config.ffn_dim,
        "hidden_act": "silu",
        "rope_parameters": _write_rope(config),
        "tie_word_embeddings": config.tie_embeddings,
        "rms_norm_eps": config.eps,
    }


def _read_llama(fields: HFConfig, names: Collection[str]) -> LlamaConfig:
    bias, wide = fields.flag("attention_bias", False), fields.flag("mlp_bias", False)
    return replace(_read_shared(fields, LlamaConfig()), qkv_bias=bias, output_bias=bias, feed_forward_bias=wide)


def _write_llama(config: LlamaConfig) -> dict[str, object]:
    require("Llama", window=(config.window, None), output_bias=(config.output_bias, config.qkv_bias))
    biases = {"attention_bias": config.qkv_bias, "mlp_bias": config.feed_forward_bias}
    return {"architectures": ["LlamaForCausalLM"], **_write_shared(config), **biases}


def _read_mistral(fields: HFConfig, names: Collection[str]) -> LlamaConfig:
    default = LlamaConfig(context=131072, kv_heads=8, ffn_dim=14336)
    return replace(_read_shared(fields, default), window=fields.maybe_whole("sliding_window", 4096, MOST_PLACES))


def _write_mistral(config: LlamaConfig) -> dict[str, object]:
    require("Mistral", **_no_biases(config), qkv_bias=(config.qkv_bias, False))
    return {"architectures": ["MistralForCausalLM"], **_write_shared(config), "sliding_window": config.window}


def _no_biases(config: LlamaConfig) -> dict[str, tuple[object, object]]:
    return {"output_bias": (config.output_bias, False), "feed_forward_bias": (config.feed_forward_bias, False)}


def _read_qwen2(fields: HFConfig, names: Collection[str]) -> LlamaConfig:
    shared = _read_shared(fields, LlamaConfig(vocab=151936, context=32768, kv_heads=32, ffn_dim=22016))
    window = fields.maybe_whole("sliding_window", 4096, MOST_PLACES)
    full = fields.whole("max_window_layers", 28, least=0, most=MOST_LAYERS)
    if not fields.flag("use_sliding_window", False) or full >= shared.layers:
        window = None
    elif full > 0 and window is not None:
        raise CheckpointError(f"{fields.where}: max_window_layers is {full}, wanted 0 or all {shared.layers} layers")
    fields.must("layer_types", None, ["full_attention" if window is None else "sliding_attention"] * shared.layers)
    return replace(shared, qkv_bias=True, window=window)


def _write_qwen2(config: LlamaConfig) -> dict[str, object]:
    require("Qwen2", **_no_biases(config), qkv_bias=(config.qkv_bias, True))
    windows: dict[str, object] = {"use_sliding_window": config.window is not None, "sliding_window": config.window}
    windows["max_window_layers"] = config.layers if config.window is None else 0
    windows["layer_types"] = ["full_attention" if config.window is None else "sliding_attention"] * config.layers
    return {"architectures": ["Qwen2ForCausalLM"], **_write_shared(config), **windows}


def _llama_rows(config: LlamaConfig) -> list[TensorMap]:
    rows = LLAMA + (LLAMA_TIED if config.tie_embeddings else LLAMA_UNTIED)
    rows += LLAMA_BIASES if config.qkv_bias else []
    rows += LLAMA_OUTPUT_BIAS if config.output_bias else []
    return rows + (LLAMA_FEED_FORWARD_BIASES if config.feed_forward_bias else [])


# They look back only, whatever a file says; how a product was once cut into parts changes no number of it.
_LLAMA_UNUSED = frozenset({"is_decoder", "pretraining_tp"})
FAMILY_LLAMA = ModelFamily("llama", LlamaConfig, _read_llama, _write_llama, _llama_rows, harmless=_LLAMA_UNUSED)
FAMILY_MISTRAL = ModelFamily("mistral", LlamaConfig, _read_mistral, _write_mistral, _llama_rows, harmless=_LLAMA_UNUSED)
FAMILY_QWEN2 = ModelFamily("qwen2", LlamaConfig, _read_qwen2, _write_qwen2, _llama_rows, harmless=_LLAMA_UNUSED)
