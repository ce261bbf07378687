"""ALBERT: BERT with one block for all layers and embeddings narrower than the hidden states."""

from dataclasses import replace

from glassformer.checkpoints.families.bert import ENCODER, embedding_rows, head_rows, heads, masked_rows
from glassformer.checkpoints.families.family import FieldMap
from glassformer.checkpoints.tensor_map import TensorMap, parts
from glassformer.layers.config import OneOrMoreLayers, Size
from glassformer.models.encoder import EncoderConfig

_BLOCK = {
    "attention.query": "attention.query",
    "attention.key": "attention.key",
    "attention.value": "attention.value",
    "attention.output": "attention.dense",
    "attention_norm": "attention.LayerNorm",
    "feed_forward.up": "ffn",
    "feed_forward.down": "ffn_output",
    "feed_forward_norm": "full_layer_layer_norm",
}
_POOLER = {"pooler": "albert.pooler"}
_MASKED = masked_rows("albert", "predictions", "dense", "LayerNorm")


def _tensors(config: EncoderConfig) -> list[TensorMap]:
    return [
        *embedding_rows("albert"),
        *parts({"widen": "albert.encoder.embedding_hidden_mapping_in"}),
        *parts(_BLOCK, ("stack.blocks.0.", "albert.encoder.albert_layer_groups.0.albert_layers.0.")),
        *head_rows(config, _POOLER, {**_POOLER, "classifier": "classifier"}, _MASKED),
    ]


FAMILY_ALBERT = replace(
    ENCODER,
    model_type="albert",
    name="ALBERT",
    defaults=EncoderConfig(
        vocab=30000, dim=4096, heads=64, ffn_dim=16384, embedding_dim=128, activation="gelu_tanh", share_layers=True
    ),
    fields=[
        *(row for row in ENCODER.fields if row.ours != "layers"),
        FieldMap("layers", "num_hidden_layers", OneOrMoreLayers),
        FieldMap("embedding_dim", "embedding_size", Size),
    ],
    tensors=_tensors,
    architectures=heads("Albert"),
    fixed={
        **ENCODER.fixed,
        "num_hidden_groups": (1,),
        "inner_group_num": (1,),
        # nothing of theirs reads these
        **dict.fromkeys(("down_scale_factor", "gap_size", "net_structure_type", "num_memory_blocks"), (0, 1)),
    },
    base="albert.",
)
