"""DistilBERT: half of BERT's layers, without token types, and a classifier with a ReLU."""

from collections.abc import Collection
from dataclasses import replace

from glassformer.checkpoints.families.bert import ENCODER, embedding_rows, head_rows, heads
from glassformer.checkpoints.families.family import ACTIVATION_WORDS, FieldMap
from glassformer.checkpoints.hf_config import HFConfig
from glassformer.checkpoints.tensor_map import TensorMap, parts
from glassformer.models.encoder import EncoderConfig

_BLOCK = {
    "attention.query": "attention.q_lin",
    "attention.key": "attention.k_lin",
    "attention.value": "attention.v_lin",
    "attention.output": "attention.out_lin",
    "attention_norm": "sa_layer_norm",
    "feed_forward.up": "ffn.lin1",
    "feed_forward.down": "ffn.lin2",
    "feed_forward_norm": "output_layer_norm",
}
_CLASSIFIER = {"pooler": "pre_classifier", "classifier": "classifier"}
_MASKED = [
    *parts({"masked_head.transform": "vocab_transform", "masked_head.norm": "vocab_layer_norm"}),
    TensorMap("masked_head.bias", "vocab_projector.bias"),
    TensorMap("", "vocab_projector.weight", same_as="distilbert.embeddings.word_embeddings.weight"),
]


def _tensors(config: EncoderConfig) -> list[TensorMap]:
    return [
        *embedding_rows("distilbert", token_types=False),
        *parts(_BLOCK, ("stack.blocks.{i}.", "distilbert.transformer.layer.{i}."), "layers"),
        *head_rows(config, {}, _CLASSIFIER, _MASKED),
    ]


def _read(fields: HFConfig, names: Collection[str], config: EncoderConfig) -> EncoderConfig:
    return replace(config, pool="relu" if config.head == "classifier" else "tanh")


def _write(config: EncoderConfig) -> dict[str, object]:
    if config.head == "classifier" and config.pool != "relu":
        raise FAMILY_DISTILBERT.refusal("pool", config.pool, repr("relu"))
    return {}


FAMILY_DISTILBERT = replace(
    ENCODER,
    model_type="distilbert",
    name="DistilBERT",
    defaults=replace(ENCODER.defaults, layers=6, token_types=0),
    fields=[
        FieldMap("vocab", "vocab_size"),
        FieldMap("context", "max_position_embeddings"),
        FieldMap("dim", "dim"),
        FieldMap("layers", "n_layers"),
        FieldMap("heads", "n_heads"),
        FieldMap("ffn_dim", "hidden_dim"),
        FieldMap("activation", "activation", words=ACTIVATION_WORDS),
        FieldMap("dropout", "dropout", also=("attention_dropout",)),
    ],
    tensors=_tensors,
    architectures=heads("DistilBert", bare="hidden"),
    read=_read,
    write=_write,
    exceptions={*ENCODER.exceptions, "pool"},
    fixed={
        "sinusoidal_pos_embds": (False, True),  # how positions were initialized; the file has them as they are now
        "tie_weights_": (True,),
        "tie_word_embeddings": (True,),
    },
    synonyms={"hidden_size": "dim", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"},
    base="distilbert.",
)
