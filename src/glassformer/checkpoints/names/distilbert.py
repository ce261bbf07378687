"""DistilBERT: no segments, and shorter names for the same parts."""

from glassformer.checkpoints.names.bert import bert_start, blocks
from glassformer.checkpoints.tensor_map import TensorMap, pair

DISTILBERT = [
    *bert_start("distilbert"),
    *blocks(
        {
            "attention.query": "attention.q_lin",
            "attention.key": "attention.k_lin",
            "attention.value": "attention.v_lin",
            "attention.output": "attention.out_lin",
            "attention_norm": "sa_layer_norm",
            "feed_forward.up": "ffn.lin1",
            "feed_forward.down": "ffn.lin2",
            "feed_forward_norm": "output_layer_norm",
        },
        "distilbert.transformer.layer.{i}",
    ),
]
DISTILBERT_CLASSES = [
    *pair("pooler", "pre_classifier", transposed=True),
    *pair("classifier", "classifier", transposed=True),
]
DISTILBERT_MASKED = [
    *pair("masked_head.transform", "vocab_transform", transposed=True),
    *pair("masked_head.norm", "vocab_layer_norm"),
    TensorMap("masked_head.bias", "vocab_projector.bias"),
    TensorMap((), "vocab_projector.weight", same_as="distilbert.embeddings.word_embeddings.weight"),
]
