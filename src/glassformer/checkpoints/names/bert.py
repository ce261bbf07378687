"""BERT's encoder, and the heads that stand on it; the names of the encoder alone have no `bert.` before them."""

from glassformer.checkpoints.tensor_map import TensorMap, pair


def blocks(ours_to_theirs: dict[str, str], theirs: str, per: str = "layers") -> list[TensorMap]:
    """The parts of every block; norms are no matrices, so they are stored as they are."""
    return [
        row
        for ours, name in ours_to_theirs.items()
        for row in pair(f"stack.blocks.{{i}}.{ours}", f"{theirs}.{name}", per, transposed="norm" not in ours)
    ]


BERT_BLOCK = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feed_forward.up": "intermediate.dense",
    "feed_forward.down": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}


def bert_start(base: str) -> list[TensorMap]:
    """Embeddings of tokens and places, and the norm on their sum."""
    return [
        TensorMap("embedding.weight", f"{base}.embeddings.word_embeddings.weight"),
        TensorMap("positions.weight", f"{base}.embeddings.position_embeddings.weight"),
        *pair("norm", f"{base}.embeddings.LayerNorm"),
        TensorMap((), f"{base}.embeddings.position_ids", derived="places"),
    ]


def bert_segments(base: str) -> list[TensorMap]:
    """Embeddings of first and second text."""
    return [TensorMap("token_types.weight", f"{base}.embeddings.token_type_embeddings.weight")]


BERT = [*bert_start("bert"), *blocks(BERT_BLOCK, "bert.encoder.layer.{i}")]
BERT_POOLER = pair("pooler", "bert.pooler.dense", transposed=True)
BERT_CLASSES = pair("classifier", "classifier", transposed=True)
BERT_MASKED = [
    *pair("masked_head.transform", "cls.predictions.transform.dense", transposed=True),
    *pair("masked_head.norm", "cls.predictions.transform.LayerNorm"),
    TensorMap("masked_head.bias", "cls.predictions.bias"),
    TensorMap((), "cls.predictions.decoder.bias", same_as="cls.predictions.bias"),
    TensorMap((), "cls.predictions.decoder.weight", same_as="bert.embeddings.word_embeddings.weight"),
]
BERT_NEXT_SENTENCE = pair("next", "cls.seq_relationship", transposed=True)
