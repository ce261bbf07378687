"""Marian and BART: the translator of 2017, with waves or with learned places and a norm on the embeddings."""

from collections.abc import Collection
from dataclasses import replace

from glassformer.checkpoints.families.family import ACTIVATION_WORDS, ModelFamily, activation_word, require
from glassformer.checkpoints.hf_config import MOST_PLACES, MOST_TOKENS, HFConfig
from glassformer.checkpoints.names.marian import BART, MARIAN, OUTPUT_BIAS
from glassformer.checkpoints.tensor_map import TensorMap
from glassformer.errors import CheckpointError
from glassformer.models.seq2seq import Seq2SeqConfig

BART_FIRST_PLACE = 2  # places are counted from here, for padding was once given one


def _read_translator(fields: HFConfig, names: Collection[str], vocab: int) -> Seq2SeqConfig:
    """The sizes that both call alike; theirs differ between the two sides, ours do not."""
    layers, decoder_layers = fields.layers("encoder_layers", 12), fields.layers("decoder_layers", 12)
    heads, hidden = fields.whole("encoder_attention_heads", 16), fields.whole("encoder_ffn_dim", 4096)
    for name, there, here in (("attention_heads", 16, heads), ("ffn_dim", 4096, hidden)):
        if fields.whole(f"decoder_{name}", there) != here:
            raise CheckpointError(f"{fields.where}: decoder_{name} differs from encoder_{name}, wanted the same number")
    fields.must("tie_word_embeddings", True)
    for name in ("normalize_before", "add_final_layer_norm", "add_bias_logits"):
        fields.must(name, False)
    return Seq2SeqConfig(
        vocab=fields.whole("vocab_size", vocab, most=MOST_TOKENS),
        context=fields.whole("max_position_embeddings", 1024, most=MOST_PLACES),
        dim=fields.whole("d_model", 1024),
        layers=layers,
        decoder_layers=None if decoder_layers == layers else decoder_layers,
        heads=heads,
        ffn_dim=hidden,
        activation=fields.choice("activation_function", "gelu", ACTIVATION_WORDS),
        scale_embeddings=fields.flag("scale_embedding", False),
        output_bias="final_logits_bias" in names,
        dropout=fields.number("dropout", 0.1),
    )


def _write_translator(config: Seq2SeqConfig) -> dict[str, object]:
    return {
        "is_encoder_decoder": True,
        "vocab_size": config.vocab,
        "max_position_embeddings": config.context,
        "d_model": config.dim,
        "encoder_layers": config.layers,
        "decoder_layers": config.layers if config.decoder_layers is None else config.decoder_layers,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.ffn_dim,
        "decoder_ffn_dim": config.ffn_dim,
        "activation_function": activation_word(config.activation),
        "scale_embedding": config.scale_embeddings,
        "dropout": config.dropout,
        "tie_word_embeddings": True,
    }


def _require_common(family: str, config: Seq2SeqConfig) -> None:
    require(family, norm_first=(config.norm_first, False), eps=(config.eps, 1e-5))


def _read_marian(fields: HFConfig, names: Collection[str]) -> Seq2SeqConfig:
    config = _read_translator(fields, names, vocab=58101)
    fields.must("share_encoder_decoder_embeddings", True)
    fields.must("decoder_vocab_size", config.vocab, None, 0)
    fields.must("static_position_embeddings", True)
    fields.must("normalize_embedding", False)
    return replace(config, positions="halves")


def _write_marian(config: Seq2SeqConfig) -> dict[str, object]:
    _require_common("Marian", config)
    require(
        "Marian",
        positions=(config.positions, "halves"),
        position_offset=(config.position_offset, 0),
        embedding_norm=(config.embedding_norm, False),
    )
    more = {"decoder_vocab_size": config.vocab, "share_encoder_decoder_embeddings": True}
    return {"architectures": ["MarianMTModel"], **_write_translator(config), **more}


def _read_bart(fields: HFConfig, names: Collection[str]) -> Seq2SeqConfig:
    config = _read_translator(fields, names, vocab=50265)
    fields.must("static_position_embeddings", False)
    fields.must("normalize_embedding", True)
    return replace(config, positions="learned", position_offset=BART_FIRST_PLACE, embedding_norm=True)


def _write_bart(config: Seq2SeqConfig) -> dict[str, object]:
    _require_common("BART", config)
    require(
        "BART",
        positions=(config.positions, "learned"),
        position_offset=(config.position_offset, BART_FIRST_PLACE),
        embedding_norm=(config.embedding_norm, True),
    )
    return {"architectures": ["BartForConditionalGeneration"], **_write_translator(config)}


def _marian_rows(config: Seq2SeqConfig) -> list[TensorMap]:
    return MARIAN + (OUTPUT_BIAS if config.output_bias else [])


def _bart_rows(config: Seq2SeqConfig) -> list[TensorMap]:
    return BART + (OUTPUT_BIAS if config.output_bias else [])


_SEQ2SEQ_SYNONYMS = {
    "hidden_size": "d_model",
    "num_attention_heads": "encoder_attention_heads",
    "num_hidden_layers": "encoder_layers",
}
_SEQ2SEQ_UNUSED = frozenset({"extra_pos_embeddings", "replacing_rate"})  # places are counted from two in every BART
FAMILY_MARIAN = ModelFamily(
    "marian",
    Seq2SeqConfig,
    _read_marian,
    _write_marian,
    _marian_rows,
    "model.",
    synonyms=_SEQ2SEQ_SYNONYMS,
    harmless=_SEQ2SEQ_UNUSED,
)
FAMILY_BART = ModelFamily(
    "bart",
    Seq2SeqConfig,
    _read_bart,
    _write_bart,
    _bart_rows,
    "model.",
    synonyms=_SEQ2SEQ_SYNONYMS,
    harmless=_SEQ2SEQ_UNUSED,
)
