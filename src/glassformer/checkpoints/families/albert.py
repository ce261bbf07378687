"""ALBERT: BERT with one block for all layers and embeddings narrower than the rows."""

from collections.abc import Collection
from dataclasses import replace

from glassformer.checkpoints.families.bert import Head, head_rows, is_bare, read_encoder, read_head, write_encoder
from glassformer.checkpoints.families.family import ModelFamily, require
from glassformer.checkpoints.hf_config import HFConfig
from glassformer.checkpoints.names.albert import ALBERT, ALBERT_CLASSES, ALBERT_MASKED, ALBERT_POOLER
from glassformer.checkpoints.tensor_map import TensorMap
from glassformer.models.encoder import EncoderConfig

_ALBERT_HEADS: dict[str, Head] = {
    "AlbertModel": "pooled",
    "AlbertForMaskedLM": "masked",
    "AlbertForSequenceClassification": "classifier",
}

_ALBERT_DEFAULTS = EncoderConfig(
    vocab=30000, dim=4096, heads=64, ffn_dim=16384, activation="gelu_tanh", share_layers=True, embedding_dim=128
)


def _read_albert(fields: HFConfig, names: Collection[str]) -> EncoderConfig:
    fields.must("num_hidden_groups", 1)
    fields.must("inner_group_num", 1)
    for unused in ("down_scale_factor", "gap_size", "net_structure_type", "num_memory_blocks"):
        fields.must(unused, 0, 1)  # no code of theirs reads these
    shared = read_encoder(fields, read_head(fields, names, _ALBERT_HEADS, "pooler."), _ALBERT_DEFAULTS)
    return replace(shared, share_layers=True, embedding_dim=fields.whole("embedding_size", 128))


def _write_albert(config: EncoderConfig) -> dict[str, object]:
    require(
        "ALBERT",
        layers=(config.layers > 0, True),
        share_layers=(config.share_layers, True),
        embedding_dim=(config.embedding_dim is not None, True),
        position_offset=(config.position_offset, 0),
        pool=(config.pool, "tanh"),
        token_types=(config.token_types > 0, True),
    )
    return {**write_encoder(config, _ALBERT_HEADS), "embedding_size": config.embedding_dim}


def _albert_rows(config: EncoderConfig) -> list[TensorMap]:
    return ALBERT + head_rows(config, ALBERT_POOLER, ALBERT_POOLER + ALBERT_CLASSES, ALBERT_MASKED)


FAMILY_ALBERT = ModelFamily("albert", EncoderConfig, _read_albert, _write_albert, _albert_rows, "albert.", is_bare)
