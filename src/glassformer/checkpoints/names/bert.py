"""BERT's encoder, and the heads that stand on it; the names of the encoder alone have no `bert.` before them."""

from glassformer.checkpoints.naming import Row, pair


def blocks(ours_to_theirs: dict[str, str], theirs: str, per: str = "layers") -> list[Row]:
    """The parts of every block; norms are no matrices, so they are stored as they are."""
    return [
        row
        for ours, name in ours_to_theirs.items()
        for row in pair(f"stack.blocks.{{i}}.{ours}", f"{theirs}.{name}", per, turned="norm" not in ours)
    ]


BERT_BLOCK = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "around_attention.norm": "attention.output.LayerNorm",
    "feed_forward.up": "intermediate.dense",
    "feed_forward.down": "output.dense",
    "around_feed_forward.norm": "output.LayerNorm",
}


def bert_start(base: str) -> list[Row]:
    """Embeddings of tokens and places, and the norm on their sum."""
    return [
        Row("embedding.weight", f"{base}.embeddings.word_embeddings.weight"),
        Row("positions.weight", f"{base}.embeddings.position_embeddings.weight"),
        *pair("norm", f"{base}.embeddings.LayerNorm"),
        Row((), f"{base}.embeddings.position_ids", derived="places"),
    ]


def bert_segments(base: str) -> list[Row]:
    """Embeddings of first and second text."""
    return [Row("segments.weight", f"{base}.embeddings.token_type_embeddings.weight")]


BERT = [*bert_start("bert"), *blocks(BERT_BLOCK, "bert.encoder.layer.{i}")]
BERT_POOLER = pair("pooler", "bert.pooler.dense", turned=True)
BERT_CLASSES = pair("classes", "classifier", turned=True)
BERT_MASKED = [
    *pair("masked.transform", "cls.predictions.transform.dense", turned=True),
    *pair("masked.norm", "cls.predictions.transform.LayerNorm"),
    Row("masked.bias", "cls.predictions.bias"),
    Row((), "cls.predictions.decoder.bias", same_as="cls.predictions.bias"),
    Row((), "cls.predictions.decoder.weight", same_as="bert.embeddings.word_embeddings.weight"),
]
BERT_NEXT_SENTENCE = pair("next", "cls.seq_relationship", turned=True)
