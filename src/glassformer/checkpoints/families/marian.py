"""Marian and BART: the translator of 2017, with sinusoidal positions, or learned ones and a norm on the embeddings."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from glassformer.checkpoints.families.family import (
    ACTIVATION_WORDS,
    FAIRSEQ_ATTENTION,
    FAIRSEQ_BLOCK,
    FieldMap,
    ModelFamily,
    fields,
)
from glassformer.checkpoints.hf_config import HFConfig
from glassformer.checkpoints.tensor_map import Derived, TensorMap, parts
from glassformer.equations.positions import sinusoidal_positions
from glassformer.layers.config import Layers
from glassformer.layers.model import Model
from glassformer.models.seq2seq import Seq2SeqConfig


def _are_sinusoidal(table: Tensor, model: Model) -> bool:
    if table.shape != (model.config.context, model.config.dim):
        return False
    return torch.allclose(table.float(), sinusoidal_positions(*table.shape, layout="halves"), atol=1e-3)


_CROSS_ATTENTION = {
    **{f"cross_attention.{native}": f"encoder_attn.{hf}" for native, hf in FAIRSEQ_ATTENTION.items()},
    "cross_norm": "encoder_attn_layer_norm",
}


def _blocks(names: dict[str, str], side: str, per: str) -> list[TensorMap]:
    return parts(names, (f"{side}.blocks.{{i}}.", f"model.{side}.layers.{{i}}."), per)


def _tensors(config: Seq2SeqConfig) -> list[TensorMap]:
    tied = ("lm_head", "model.encoder.embed_tokens", "model.decoder.embed_tokens")
    rows = [
        TensorMap("embedding.weight", "model.shared.weight"),
        *_blocks(FAIRSEQ_BLOCK, "encoder", "layers"),
        *_blocks(FAIRSEQ_BLOCK | _CROSS_ATTENTION, "decoder", "decoder_layers"),
        *(TensorMap("", f"{name}.weight", same_as="model.shared.weight") for name in tied),
    ]
    for native, side in (("source_start", "model.encoder"), ("target_start", "model.decoder")):
        positions = f"{side}.embed_positions.weight"
        if config.positions == "learned":
            rows.append(TensorMap(f"{native}.0.weight", positions))
            rows += parts({f"{native}.1": f"{side}.layernorm_embedding"})
        else:
            rows.append(TensorMap("", positions, derived=Derived("sinusoidal positions", _are_sinusoidal)))
    if config.output_bias:  # files of the model without a head do not have it
        rows.append(TensorMap("output_bias", "final_logits_bias", unsqueezed=True))
    return rows


_FIELDS: Sequence[FieldMap[Seq2SeqConfig]] = [
    *fields(vocab="vocab_size", context="max_position_embeddings", dim="d_model", layers="encoder_layers"),
    FieldMap("decoder_layers", "decoder_layers", Layers, otherwise=lambda config: config.layers),
    *fields(heads="encoder_attention_heads", ffn_dim="encoder_ffn_dim"),
    *fields(heads="decoder_attention_heads", ffn_dim="decoder_ffn_dim"),
    FieldMap("activation", "activation_function", words=ACTIVATION_WORDS),
    *fields(scale_embeddings="scale_embedding", dropout="dropout"),
]


def _read(fields: HFConfig, names: Collection[str], config: Seq2SeqConfig) -> Seq2SeqConfig:
    return replace(config, output_bias="final_logits_bias" in names)


def _read_marian(fields: HFConfig, names: Collection[str], config: Seq2SeqConfig) -> Seq2SeqConfig:
    fields.must("decoder_vocab_size", config.vocab, None, 0)
    return _read(fields, names, config)


_MARIAN = Seq2SeqConfig(
    vocab=58101, context=1024, dim=1024, layers=12, decoder_layers=12, heads=16, ffn_dim=4096, activation="gelu",
    positions="halves", scale_embeddings=False, dropout=0.1, eps=1e-5,
)  # fmt: skip
FAMILY_MARIAN = ModelFamily(
    "marian",
    "Marian",
    _MARIAN,
    _FIELDS,
    _tensors,
    {"MarianMTModel": ""},
    _read_marian,
    lambda config: {"decoder_vocab_size": config.vocab},
    exceptions={"output_bias", "attention_dropout"},
    fixed={
        "tie_word_embeddings": (True,),
        **dict.fromkeys(("normalize_before", "add_final_layer_norm", "add_bias_logits"), (False,)),
        "share_encoder_decoder_embeddings": (True,),
        "static_position_embeddings": (True,),
        "normalize_embedding": (False,),
    },
    constants={"is_encoder_decoder": True, "tie_word_embeddings": True, "share_encoder_decoder_embeddings": True},
    synonyms={
        "hidden_size": "d_model",
        "num_attention_heads": "encoder_attention_heads",
        "num_hidden_layers": "encoder_layers",
    },
    harmless={"extra_pos_embeddings", "replacing_rate"},
    base="model.",
)
FAMILY_BART = replace(  # whose positions start at two, because padding once had one
    FAMILY_MARIAN,
    model_type="bart",
    name="BART",
    defaults=replace(_MARIAN, vocab=50265, positions="learned", position_offset=2, embedding_norm=True),
    architectures={"BartForConditionalGeneration": ""},
    read=_read,
    write=lambda _: {},
    fixed={
        **{name: values for name, values in FAMILY_MARIAN.fixed.items() if not name.startswith("share")},
        "static_position_embeddings": (False,),
        "normalize_embedding": (True,),
    },
    constants={"is_encoder_decoder": True, "tie_word_embeddings": True},
)
FAMILIES = FAMILY_MARIAN, FAMILY_BART
