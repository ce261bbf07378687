"""Marian and BART: the translator of 2017, with waves or with learned places and a norm on the embeddings."""

from collections.abc import Collection
from dataclasses import replace

from glassformer.checkpoints.families.family import ACTIVATION_WORDS, ModelFamily, activation_word, require
from glassformer.checkpoints.fields import MOST_LAYERS, MOST_PLACES, MOST_TOKENS, Fields
from glassformer.checkpoints.names.marian import BART, MARIAN
from glassformer.checkpoints.naming import Row
from glassformer.models.seq2seq import Seq2SeqConfig

BART_FIRST_PLACE = 2  # places are counted from here, for padding was once given one


def _read_translator(fields: Fields) -> Seq2SeqConfig:
    """The sizes that both call alike; theirs differ between the two sides, ours do not."""
    vocab = fields.whole("vocab_size", most=MOST_TOKENS)
    layers = fields.whole("encoder_layers", most=MOST_LAYERS)
    decoder_layers = fields.whole("decoder_layers", most=MOST_LAYERS)
    heads, hidden = fields.whole("encoder_attention_heads"), fields.whole("encoder_ffn_dim")
    fields.must("num_hidden_layers", layers)
    fields.must("decoder_attention_heads", heads)
    fields.must("decoder_ffn_dim", hidden)
    fields.must("tie_word_embeddings", True)
    for name in ("normalize_before", "add_final_layer_norm", "add_bias_logits"):
        fields.must(name, False)
    return Seq2SeqConfig(
        vocab=vocab,
        context=fields.whole("max_position_embeddings", most=MOST_PLACES),
        dim=fields.whole("d_model"),
        layers=layers,
        decoder_layers=None if decoder_layers == layers else decoder_layers,
        heads=heads,
        hidden=hidden,
        activation=fields.choice("activation_function", "gelu", ACTIVATION_WORDS),
        scaled=fields.flag("scale_embedding", False),
        output_bias=True,
        dropout=fields.number("dropout", 0.1, most=1.0),
    )


def _write_translator(config: Seq2SeqConfig) -> dict[str, object]:
    return {
        "is_encoder_decoder": True,
        "vocab_size": config.vocab,
        "max_position_embeddings": config.context,
        "d_model": config.dim,
        "encoder_layers": config.layers,
        "decoder_layers": config.decoder_layers or config.layers,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.hidden,
        "decoder_ffn_dim": config.hidden,
        "activation_function": activation_word(config.activation),
        "scale_embedding": config.scaled,
        "dropout": config.dropout,
        "tie_word_embeddings": True,
    }


def _require_common(family: str, config: Seq2SeqConfig) -> None:
    require(
        family, order=(config.order, "post"), output_bias=(config.output_bias, True), eps=(config.eps, 1e-5),
        decoder_layers=(config.decoder_layers != 0, True),
    )  # fmt: skip


def _read_marian(fields: Fields, names: Collection[str]) -> Seq2SeqConfig:
    config = _read_translator(fields)
    fields.must("share_encoder_decoder_embeddings", True)
    fields.must("decoder_vocab_size", config.vocab, None)
    fields.must("static_position_embeddings", True)
    fields.must("normalize_embedding", False)
    return replace(config, positions="halves")


def _write_marian(config: Seq2SeqConfig) -> dict[str, object]:
    _require_common("Marian", config)
    require(
        "Marian",
        positions=(config.positions, "halves"),
        first_place=(config.first_place, 0),
        embedding_norm=(config.embedding_norm, False),
    )
    more = {"decoder_vocab_size": config.vocab, "share_encoder_decoder_embeddings": True}
    return {"architectures": ["MarianMTModel"], **_write_translator(config), **more}


def _read_bart(fields: Fields, names: Collection[str]) -> Seq2SeqConfig:
    config = _read_translator(fields)
    fields.must("static_position_embeddings", False)
    fields.must("normalize_embedding", True)
    return replace(config, positions="learned", first_place=BART_FIRST_PLACE, embedding_norm=True)


def _write_bart(config: Seq2SeqConfig) -> dict[str, object]:
    _require_common("BART", config)
    require(
        "BART",
        positions=(config.positions, "learned"),
        first_place=(config.first_place, BART_FIRST_PLACE),
        embedding_norm=(config.embedding_norm, True),
    )
    return {"architectures": ["BartForConditionalGeneration"], **_write_translator(config)}


def _marian_rows(config: Seq2SeqConfig) -> list[Row]:
    return MARIAN


def _bart_rows(config: Seq2SeqConfig) -> list[Row]:
    return BART


FAMILY_MARIAN = ModelFamily("marian", Seq2SeqConfig, _read_marian, _write_marian, _marian_rows)
FAMILY_BART = ModelFamily("bart", Seq2SeqConfig, _read_bart, _write_bart, _bart_rows)
