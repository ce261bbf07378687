"""BERT's encoder, and the heads that stand on it; the names of the encoder alone have no `bert.` before them."""

from glassformer.checkpoints.naming import Row, pair

BERT = [
    Row("embedding.weight", "bert.embeddings.word_embeddings.weight"),
    Row("segments.weight", "bert.embeddings.token_type_embeddings.weight"),
    Row("positions.weight", "bert.embeddings.position_embeddings.weight"),
    *pair("norm", "bert.embeddings.LayerNorm"),
    *(
        row
        for ours, theirs in {
            "attention.query": "attention.self.query",
            "attention.key": "attention.self.key",
            "attention.value": "attention.self.value",
            "attention.output": "attention.output.dense",
            "feed_forward.up": "intermediate.dense",
            "feed_forward.down": "output.dense",
        }.items()
        for row in pair(f"stack.blocks.{{i}}.{ours}", f"bert.encoder.layer.{{i}}.{theirs}", "layers", turned=True)
    ),
    *pair("stack.blocks.{i}.around_attention.norm", "bert.encoder.layer.{i}.attention.output.LayerNorm", "layers"),
    *pair("stack.blocks.{i}.around_feed_forward.norm", "bert.encoder.layer.{i}.output.LayerNorm", "layers"),
]
BERT_POOLER = pair("pooler", "bert.pooler.dense", turned=True)
BERT_CLASSES = pair("classes", "classifier", turned=True)
BERT_MASKED = [
    *pair("masked.transform", "cls.predictions.transform.dense", turned=True),
    *pair("masked.norm", "cls.predictions.transform.LayerNorm"),
    Row("masked.bias", "cls.predictions.bias"),
    Row((), "cls.predictions.decoder.bias", same_as="cls.predictions.bias"),
    Row((), "cls.predictions.decoder.weight", same_as="bert.embeddings.word_embeddings.weight"),
]
