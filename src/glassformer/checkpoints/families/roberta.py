"""RoBERTa, from Hugging Face and from fairseq: BERT whose places are counted from after the padding token's id."""

from collections.abc import Collection
from dataclasses import replace

from glassformer.checkpoints.families.bert import Head, head_rows, is_bare, read_encoder, read_head, write_encoder
from glassformer.checkpoints.families.family import ACTIVATION_WORDS, ModelFamily, activation_word, require
from glassformer.checkpoints.hf_config import MOST_LAYERS, MOST_PLACES, MOST_TOKENS, HFConfig
from glassformer.checkpoints.names.bert import bert_segments
from glassformer.checkpoints.names.roberta import FAIRSEQ, ROBERTA, ROBERTA_CLASSES, ROBERTA_MASKED, ROBERTA_POOLER
from glassformer.checkpoints.tensor_map import TensorMap
from glassformer.errors import CheckpointError
from glassformer.models.encoder import EncoderConfig

_ROBERTA_HEADS: dict[str, Head] = {
    "RobertaModel": "pooled",
    "RobertaForMaskedLM": "masked",
    "RobertaForSequenceClassification": "classifier",
}

_ROBERTA_DEFAULTS = EncoderConfig(vocab=50265, dropout=0.1)


def _read_roberta(fields: HFConfig, names: Collection[str]) -> EncoderConfig:
    shared = read_encoder(fields, read_head(fields, names, _ROBERTA_HEADS, "pooler.dense."), _ROBERTA_DEFAULTS)
    first = fields.whole("pad_token_id", 1, least=0, most=MOST_TOKENS) + 1
    if first >= shared.context:
        raise CheckpointError(f"{fields.where}: pad_token_id is {first - 1}, which leaves no places to count from")
    if shared.activation != "gelu" and shared.head == "masked":
        raise CheckpointError(f"{fields.where}: hidden_act is {shared.activation}, but the head for masks has gelu")
    return replace(shared, position_offset=first, context=shared.context - first)


def _write_roberta(config: EncoderConfig) -> dict[str, object]:
    require(
        "RoBERTa",
        embedding_dim=(config.embedding_dim, None),
        share_layers=(config.share_layers, False),
        pool=(config.pool, "tanh"),
        token_types=(config.token_types > 0, True),
        position_offset=(config.position_offset > 0, True),
    )
    if config.head == "masked":
        require("RoBERTa's head for masks", activation=(config.activation, "gelu"))
    written = write_encoder(config, _ROBERTA_HEADS)
    places = {"max_position_embeddings": config.position_offset + config.context}
    return {**written, **places, "pad_token_id": config.position_offset - 1}


def _roberta_rows(config: EncoderConfig) -> list[TensorMap]:
    return ROBERTA + bert_segments("roberta") + head_rows(config, ROBERTA_POOLER, ROBERTA_CLASSES, ROBERTA_MASKED)


def _read_fairseq(fields: HFConfig, names: Collection[str]) -> EncoderConfig:
    first = fields.whole("padding_idx", 1, least=0, most=MOST_TOKENS) + 1
    return EncoderConfig(
        vocab=fields.whole("vocab_size", most=MOST_TOKENS),
        context=fields.whole("max_positions", most=MOST_PLACES),
        dim=fields.whole("encoder_embed_dim"),
        layers=fields.whole("encoder_layers", most=MOST_LAYERS),
        heads=fields.whole("encoder_attention_heads"),
        ffn_dim=fields.whole("encoder_ffn_embed_dim"),
        token_types=0,
        activation=fields.choice("activation_fn", "gelu", ACTIVATION_WORDS),
        position_offset=first,
        head="masked",
        eps=1e-5,
    )


def _write_fairseq(config: EncoderConfig) -> dict[str, object]:
    require(
        "fairseq's RoBERTa",
        embedding_dim=(config.embedding_dim, None),
        share_layers=(config.share_layers, False),
        token_types=(config.token_types, 0),
        position_offset=(config.position_offset > 0, True),
        head=(config.head, "masked"),
        eps=(config.eps, 1e-5),
    )
    return {
        "vocab_size": config.vocab,
        "padding_idx": config.position_offset - 1,
        "max_positions": config.context,
        "encoder_embed_dim": config.dim,
        "encoder_layers": config.layers,
        "encoder_attention_heads": config.heads,
        "encoder_ffn_embed_dim": config.ffn_dim,
        "activation_fn": activation_word(config.activation),
    }


FAMILY_ROBERTA = ModelFamily(
    "roberta", EncoderConfig, _read_roberta, _write_roberta, _roberta_rows, "roberta.", is_bare
)
FAMILY_FAIRSEQ = ModelFamily("fairseq-roberta", EncoderConfig, _read_fairseq, _write_fairseq, lambda _: FAIRSEQ)
