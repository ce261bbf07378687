"""ALBERT: narrow embeddings made wide, and one block for all layers."""

from glassformer.checkpoints.names.bert import bert_segments, bert_start, blocks
from glassformer.checkpoints.naming import Row, pair

ALBERT = [
    *bert_start("albert"),
    *bert_segments("albert"),
    *pair("widen", "albert.encoder.embedding_hidden_mapping_in", turned=True),
    *blocks(
        {
            "attention.query": "attention.query",
            "attention.key": "attention.key",
            "attention.value": "attention.value",
            "attention.output": "attention.dense",
            "around_attention.norm": "attention.LayerNorm",
            "feed_forward.up": "ffn",
            "feed_forward.down": "ffn_output",
            "around_feed_forward.norm": "full_layer_layer_norm",
        },
        "albert.encoder.albert_layer_groups.0.albert_layers.{i}",
        "shared_layers",
    ),
]
ALBERT_POOLER = pair("pooler", "albert.pooler", turned=True)
ALBERT_CLASSES = pair("classes", "classifier", turned=True)
ALBERT_MASKED = [
    *pair("masked.transform", "predictions.dense", turned=True),
    *pair("masked.norm", "predictions.LayerNorm"),
    Row("masked.bias", "predictions.bias"),
    Row((), "predictions.decoder.bias", same_as="predictions.bias"),
    Row((), "predictions.decoder.weight", same_as="albert.embeddings.word_embeddings.weight"),
]
