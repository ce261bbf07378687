"""RoBERTa: BERT's encoder under another name, with heads of its own; and as fairseq stores it."""

from glassformer.checkpoints.names.bert import BERT_BLOCK, bert_start, blocks
from glassformer.checkpoints.tensor_map import TensorMap, pair

ROBERTA = [*bert_start("roberta"), *blocks(BERT_BLOCK, "roberta.encoder.layer.{i}")]
ROBERTA_POOLER = pair("pooler", "roberta.pooler.dense", transposed=True)
ROBERTA_CLASSES = [
    *pair("pooler", "classifier.dense", transposed=True),
    *pair("classifier", "classifier.out_proj", transposed=True),
]
ROBERTA_MASKED = [
    *pair("masked_head.transform", "lm_head.dense", transposed=True),
    *pair("masked_head.norm", "lm_head.layer_norm"),
    TensorMap("masked_head.bias", "lm_head.bias"),
    TensorMap((), "lm_head.decoder.bias", same_as="lm_head.bias"),
    TensorMap((), "lm_head.decoder.weight", same_as="roberta.embeddings.word_embeddings.weight"),
]

_SIDE = "decoder.sentence_encoder"
FAIRSEQ_BLOCK = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.out_proj",
    "attention_norm": "self_attn_layer_norm",
    "feed_forward.up": "fc1",
    "feed_forward.down": "fc2",
    "feed_forward_norm": "final_layer_norm",
}
FAIRSEQ = [
    TensorMap("embedding.weight", f"{_SIDE}.embed_tokens.weight"),
    TensorMap("positions.weight", f"{_SIDE}.embed_positions.weight"),
    *pair("norm", f"{_SIDE}.emb_layer_norm"),
    *blocks(FAIRSEQ_BLOCK, f"{_SIDE}.layers.{{i}}"),
    *pair("masked_head.transform", "decoder.lm_head.dense", transposed=True),
    *pair("masked_head.norm", "decoder.lm_head.layer_norm"),
    TensorMap("masked_head.bias", "decoder.lm_head.bias"),
    TensorMap((), "decoder.lm_head.weight", same_as=f"{_SIDE}.embed_tokens.weight"),
]
