"""DistilBERT: half of BERT, without segments, its classes by a ReLU."""

from collections.abc import Collection

from glassformer.checkpoints.families.bert import Head, head_rows, is_bare, read_head
from glassformer.checkpoints.families.family import ACTIVATION_WORDS, ModelFamily, activation_word, require
from glassformer.checkpoints.hf_config import MOST_PLACES, MOST_TOKENS, HFConfig
from glassformer.checkpoints.names.distilbert import DISTILBERT, DISTILBERT_CLASSES, DISTILBERT_MASKED
from glassformer.checkpoints.tensor_map import TensorMap
from glassformer.errors import CheckpointError
from glassformer.models.encoder import EncoderConfig

_DISTILBERT_HEADS: dict[str, Head] = {
    "DistilBertModel": "hidden",
    "DistilBertForMaskedLM": "masked",
    "DistilBertForSequenceClassification": "classifier",
}


def _read_distilbert(fields: HFConfig, names: Collection[str]) -> EncoderConfig:
    fields.must("sinusoidal_pos_embds", False, True)  # how places began; the file has them as they are now
    fields.must("tie_weights_", True)
    fields.must("tie_word_embeddings", True)
    head = read_head(fields, names, _DISTILBERT_HEADS, "")
    return EncoderConfig(
        vocab=fields.whole("vocab_size", 30522, most=MOST_TOKENS),
        context=fields.whole("max_position_embeddings", 512, most=MOST_PLACES),
        dim=fields.whole("dim", 768),
        layers=fields.layers("n_layers", 6),
        heads=fields.whole("n_heads", 12),
        ffn_dim=fields.whole("hidden_dim", 4 * 768),
        token_types=0,
        activation=fields.choice("activation", "gelu", ACTIVATION_WORDS),
        head=head,
        pool="relu" if head == "classifier" else "tanh",
        classes=fields.classes(),
        dropout=fields.number("dropout", 0.1),
    )


def _write_distilbert(config: EncoderConfig) -> dict[str, object]:
    require(
        "DistilBERT",
        embedding_dim=(config.embedding_dim, None),
        position_offset=(config.position_offset, 0),
        share_layers=(config.share_layers, False),
        token_types=(config.token_types, 0),
        eps=(config.eps, 1e-12),
    )
    if config.head == "classifier":
        require("DistilBERT", pool=(config.pool, "relu"))
    head = "hidden" if config.head == "sentence" else config.head
    kinds = [name for name, ours in _DISTILBERT_HEADS.items() if ours == head]
    if not kinds:
        raise CheckpointError(f"head is {config.head!r}, for which DistilBERT has no class")
    return {
        "architectures": kinds,
        "vocab_size": config.vocab,
        "max_position_embeddings": config.context,
        "dim": config.dim,
        "n_layers": config.layers,
        "n_heads": config.heads,
        "hidden_dim": config.ffn_dim,
        "activation": activation_word(config.activation),
        "dropout": config.dropout,
        "attention_dropout": config.dropout,
    }


def _distilbert_rows(config: EncoderConfig) -> list[TensorMap]:
    return DISTILBERT + head_rows(config, [], DISTILBERT_CLASSES, DISTILBERT_MASKED)


FAMILY_DISTILBERT = ModelFamily(
    "distilbert", EncoderConfig, _read_distilbert, _write_distilbert, _distilbert_rows, "distilbert.", is_bare,
    synonyms={"hidden_size": "dim", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"},
)  # fmt: skip
