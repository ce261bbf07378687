"""RoBERTa: BERT's encoder under another name, with heads of its own; and as fairseq stores it."""

from glassformer.checkpoints.names.bert import BERT_BLOCK, bert_start, blocks
from glassformer.checkpoints.naming import Row, pair

ROBERTA = [*bert_start("roberta"), *blocks(BERT_BLOCK, "roberta.encoder.layer.{i}")]
ROBERTA_POOLER = pair("pooler", "roberta.pooler.dense", turned=True)
ROBERTA_CLASSES = [
    *pair("pooler", "classifier.dense", turned=True),
    *pair("classes", "classifier.out_proj", turned=True),
]
ROBERTA_MASKED = [
    *pair("masked.transform", "lm_head.dense", turned=True),
    *pair("masked.norm", "lm_head.layer_norm"),
    Row("masked.bias", "lm_head.bias"),
    Row((), "lm_head.decoder.bias", same_as="lm_head.bias"),
    Row((), "lm_head.decoder.weight", same_as="roberta.embeddings.word_embeddings.weight"),
]

_SIDE = "decoder.sentence_encoder"
FAIRSEQ_BLOCK = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.out_proj",
    "around_attention.norm": "self_attn_layer_norm",
    "feed_forward.up": "fc1",
    "feed_forward.down": "fc2",
    "around_feed_forward.norm": "final_layer_norm",
}
FAIRSEQ = [
    Row("embedding.weight", f"{_SIDE}.embed_tokens.weight"),
    Row("positions.weight", f"{_SIDE}.embed_positions.weight"),
    *pair("norm", f"{_SIDE}.emb_layer_norm"),
    *blocks(FAIRSEQ_BLOCK, f"{_SIDE}.layers.{{i}}"),
    *pair("masked.transform", "decoder.lm_head.dense", turned=True),
    *pair("masked.norm", "decoder.lm_head.layer_norm"),
    Row("masked.bias", "decoder.lm_head.bias"),
    Row((), "decoder.lm_head.weight", same_as=f"{_SIDE}.embed_tokens.weight"),
]
