"""DistilBERT: no segments, and shorter names for the same parts."""

from glassformer.checkpoints.names.bert import bert_start, blocks
from glassformer.checkpoints.naming import Row, pair

DISTILBERT = [
    *bert_start("distilbert"),
    *blocks(
        {
            "attention.query": "attention.q_lin",
            "attention.key": "attention.k_lin",
            "attention.value": "attention.v_lin",
            "attention.output": "attention.out_lin",
            "around_attention.norm": "sa_layer_norm",
            "feed_forward.up": "ffn.lin1",
            "feed_forward.down": "ffn.lin2",
            "around_feed_forward.norm": "output_layer_norm",
        },
        "distilbert.transformer.layer.{i}",
    ),
]
DISTILBERT_CLASSES = [*pair("pooler", "pre_classifier", turned=True), *pair("classes", "classifier", turned=True)]
DISTILBERT_MASKED = [
    *pair("masked.transform", "vocab_transform", turned=True),
    *pair("masked.norm", "vocab_layer_norm"),
    Row("masked.bias", "vocab_projector.bias"),
    Row((), "vocab_projector.weight", same_as="distilbert.embeddings.word_embeddings.weight"),
]
