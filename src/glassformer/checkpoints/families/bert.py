"""BERT, and with it MiniLM and other encoders of its shape."""

from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

from glassformer.checkpoints.families.family import ACTIVATION_WORDS, ModelFamily, activation_word, require
from glassformer.checkpoints.hf_config import MOST_PLACES, MOST_TOKENS, HFConfig
from glassformer.checkpoints.names.bert import (
    BERT,
    BERT_CLASSES,
    BERT_MASKED,
    BERT_NEXT_SENTENCE,
    BERT_POOLER,
    bert_segments,
)
from glassformer.checkpoints.tensor_map import TensorMap, without
from glassformer.errors import CheckpointError
from glassformer.models.encoder import EncoderConfig

Head: TypeAlias = Literal["hidden", "pooled", "sentence", "masked", "classifier"]


def read_head(fields: HFConfig, names: Collection[str], heads: Mapping[str, Head], pooler: str) -> Head:
    """What comes out, by the class that the file says it is of; without one, by its tensors."""
    (kind,) = fields.words("architectures")[:1] or [next(iter(heads))]
    if kind not in heads:
        raise CheckpointError(f"{fields.where}: architectures is {kind[:80]!r}, wanted {' or '.join(heads)}")
    pooled = any(pooler in name for name in names)
    return "hidden" if heads[kind] == "pooled" and not pooled else heads[kind]


def read_encoder(fields: HFConfig, head: Head, default: EncoderConfig) -> EncoderConfig:
    """The sizes that BERT, RoBERTa and ALBERT call alike; a missing one is what the family has by default."""
    fields.must("position_embedding_type", "absolute", None)
    fields.must("tie_word_embeddings", True)
    return EncoderConfig(
        vocab=fields.whole("vocab_size", default.vocab, most=MOST_TOKENS),
        context=fields.whole("max_position_embeddings", default.context, most=MOST_PLACES),
        dim=fields.whole("hidden_size", default.dim),
        layers=fields.layers("num_hidden_layers", default.layers, least=int(default.share_layers)),
        heads=fields.whole("num_attention_heads", default.heads),
        ffn_dim=fields.whole("intermediate_size", default.ffn_dim),
        token_types=fields.whole("type_vocab_size", default.token_types),
        activation=fields.choice("hidden_act", activation_word(default.activation), ACTIVATION_WORDS),
        head=head,
        classes=fields.classes(),
        dropout=fields.number("hidden_dropout_prob", default.dropout),
        eps=fields.number("layer_norm_eps", default.eps),
    )


def write_encoder(config: EncoderConfig, heads: Mapping[str, Head]) -> dict[str, object]:
    """The sizes under their names, and the class that has this head."""
    head = "pooled" if config.head in ("hidden", "sentence") else config.head
    kind = next((name for name, ours in heads.items() if ours == head), None)
    if kind is None:
        raise CheckpointError(f"head is {config.head!r}, for which this family has no class")
    return {
        "architectures": [kind],
        "vocab_size": config.vocab,
        "max_position_embeddings": config.context,
        "hidden_size": config.dim,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.ffn_dim,
        "type_vocab_size": config.token_types,
        "hidden_act": activation_word(config.activation),
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.dropout,
        "layer_norm_eps": config.eps,
    }


def head_rows(
    config: EncoderConfig, pooler: list[TensorMap], classes: list[TensorMap], masked: list[TensorMap]
) -> list[TensorMap]:
    """The tensors of the head; a pooler that the head does without may be in the file all the same."""
    heads = {"pooled": pooler, "classifier": classes, "masked": masked}
    used = heads.get(config.head, [])
    filled = {name for row in used for name in row.names}
    return used + (without(pooler) if not filled & {name for row in pooler for name in row.names} else [])


_BERT_HEADS: dict[str, Head] = {
    "BertModel": "pooled",
    "BertForMaskedLM": "masked",
    "BertForSequenceClassification": "classifier",
    "BertForPreTraining": "masked",
}


_BERT_DEFAULTS = EncoderConfig(dropout=0.1)


def _read_bert(fields: HFConfig, names: Collection[str]) -> EncoderConfig:
    fields.must("directionality", "bidi")
    return read_encoder(fields, read_head(fields, names, _BERT_HEADS, "pooler.dense."), _BERT_DEFAULTS)


def _write_bert(config: EncoderConfig) -> dict[str, object]:
    require(
        "BERT",
        embedding_dim=(config.embedding_dim, None),
        position_offset=(config.position_offset, 0),
        share_layers=(config.share_layers, False),
        pool=(config.pool, "tanh"),
        token_types=(config.token_types > 0, True),
    )
    return write_encoder(config, _BERT_HEADS)


def _bert_rows(config: EncoderConfig) -> list[TensorMap]:
    heads = head_rows(config, BERT_POOLER, BERT_POOLER + BERT_CLASSES, BERT_MASKED)
    return BERT + bert_segments("bert") + heads + (without(BERT_NEXT_SENTENCE) if config.head == "masked" else [])


def is_bare(config: EncoderConfig) -> bool:
    """Whether the encoder stands alone, or with its pooler, under names without a base."""
    return config.head in ("hidden", "pooled", "sentence")


# How a pooler of another kind would be shaped; the only kind there is takes the first row.
_POOLER = {
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
}
FAMILY_BERT = ModelFamily(
    "bert", EncoderConfig, _read_bert, _write_bert, _bert_rows, "bert.", is_bare, harmless=frozenset(_POOLER)
)
