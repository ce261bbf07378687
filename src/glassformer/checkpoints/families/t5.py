"""T5, also version 1.1, which gates its feed-forward and does not tie its output."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from glassformer.checkpoints.families.family import FieldMap, ModelFamily, fields
from glassformer.checkpoints.hf_config import HFConfig
from glassformer.checkpoints.tensor_map import TensorMap, parts
from glassformer.errors import CheckpointError
from glassformer.layers.config import OneOrMoreLayers, Size
from glassformer.models.t5 import T5Config

_ATTENTION = {"query": "q", "key": "k", "value": "v", "output": "o"}
_PLAIN = {"up": "wi", "down": "wo"}
_GATED = {"gate": "wi_0", "up": "wi_1", "down": "wo"}


def _stack(side: str, per: str, feed_forward: dict[str, str]) -> list[TensorMap]:
    """One stack: sublayers are numbered, and the relative position bias is in the first block."""
    last = 2 if side == "decoder" else 1
    names = {
        **{f"attention.{native}": f"0.SelfAttention.{hf}" for native, hf in _ATTENTION.items()},
        "attention_norm": "0.layer_norm",
        **{f"feed_forward.{native}": f"{last}.DenseReluDense.{hf}" for native, hf in feed_forward.items()},
        "feed_forward_norm": f"{last}.layer_norm",
    }
    if side == "decoder":
        names |= {f"cross_attention.{native}": f"1.EncDecAttention.{hf}" for native, hf in _ATTENTION.items()}
        names["cross_norm"] = "1.layer_norm"
    bias = "block.0.layer.0.SelfAttention.relative_attention_bias"
    return [
        TensorMap(f"{side}.bias.weight", f"{side}.{bias}.weight"),
        *parts(names, (f"{side}.blocks.{{i}}.", f"{side}.block.{{i}}.layer."), per, ["weight"]),
        TensorMap(f"{side}.norm.weight", f"{side}.final_layer_norm.weight"),
        TensorMap("", f"{side}.embed_tokens.weight", same_as="shared.weight"),
    ]


def _tensors(config: T5Config) -> list[TensorMap]:
    feed_forward = _GATED if config.gated else _PLAIN
    unused = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    return [
        TensorMap("embedding.weight", "shared.weight"),
        *_stack("encoder", "layers", feed_forward),
        *_stack("decoder", "decoder_layers", feed_forward),
        TensorMap("", unused, left_out=True),  # in old files, and no version ever read it
        TensorMap("", "lm_head.weight", same_as="shared.weight")
        if config.tie_embeddings
        else TensorMap("output.weight", "lm_head.weight", transposed=True, or_else="shared.weight"),
    ]


def _read(fields: HFConfig, names: Collection[str], config: T5Config) -> T5Config:
    """Tied and gated models.

    In older files one field says whether the output is tied and, if it is, that hidden states are scaled before it.
    In newer ones a tied output may have no scale, which is an untied output in the native format.
    """
    if not config.tie_embeddings and "lm_head.weight" not in names:
        raise CheckpointError(f"{fields.where}: the output is not tied, but the file has no lm_head.weight")
    fields.must("dense_act_fn", "gelu_new" if config.gated else "relu")
    fields.must("is_gated_act", config.gated)
    fields.get("n_positions", Size | None, None)  # no position is learned: any number will do
    return replace(config, tie_embeddings=fields.get("scale_decoder_outputs", bool, config.tie_embeddings))


_FIELDS: Sequence[FieldMap[T5Config]] = [
    *fields(vocab="vocab_size", dim="d_model", heads="num_heads", head_dim="d_kv", ffn_dim="d_ff"),
    FieldMap("layers", "num_layers", OneOrMoreLayers),
    FieldMap("decoder_layers", "num_decoder_layers", OneOrMoreLayers | None, otherwise=lambda config: config.layers),
    FieldMap("gated", "feed_forward_proj", words={"relu": False, "gated-gelu": True}),
    *fields(buckets="relative_attention_num_buckets", max_distance="relative_attention_max_distance"),
    *fields(tie_embeddings="tie_word_embeddings", dropout="dropout_rate", eps="layer_norm_epsilon"),
]
_T5 = ModelFamily(
    "t5",
    "T5",
    T5Config(vocab=32128, dim=512, layers=6, heads=8, head_dim=64, ffn_dim=2048, buckets=32, dropout=0.1, eps=1e-6),
    _FIELDS,
    _tensors,
    {"T5ForConditionalGeneration": ""},
    _read,
    constants={"is_encoder_decoder": True},
    synonyms={
        "hidden_size": "d_model",
        "num_attention_heads": "num_heads",
        "num_hidden_layers": "num_layers",
        "head_dim": "d_kv",
    },
)
FAMILIES = (_T5,)
