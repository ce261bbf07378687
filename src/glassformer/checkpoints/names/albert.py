"""ALBERT: narrow embeddings made wide, and one block for all layers."""

from glassformer.checkpoints.names.bert import bert_segments, bert_start, blocks
from glassformer.checkpoints.tensor_map import TensorMap, pair

ALBERT = [
    *bert_start("albert"),
    *bert_segments("albert"),
    *pair("widen", "albert.encoder.embedding_hidden_mapping_in", transposed=True),
    *blocks(
        {
            "attention.query": "attention.query",
            "attention.key": "attention.key",
            "attention.value": "attention.value",
            "attention.output": "attention.dense",
            "attention_norm": "attention.LayerNorm",
            "feed_forward.up": "ffn",
            "feed_forward.down": "ffn_output",
            "feed_forward_norm": "full_layer_layer_norm",
        },
        "albert.encoder.albert_layer_groups.0.albert_layers.{i}",
        "shared_layers",
    ),
]
ALBERT_POOLER = pair("pooler", "albert.pooler", transposed=True)
ALBERT_CLASSES = pair("classifier", "classifier", transposed=True)
ALBERT_MASKED = [
    *pair("masked_head.transform", "predictions.dense", transposed=True),
    *pair("masked_head.norm", "predictions.LayerNorm"),
    TensorMap("masked_head.bias", "predictions.bias"),
    TensorMap((), "predictions.decoder.bias", same_as="predictions.bias"),
    TensorMap((), "predictions.decoder.weight", same_as="albert.embeddings.word_embeddings.weight"),
]
