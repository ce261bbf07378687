"""RoBERTa, from Hugging Face and from fairseq: BERT whose positions start after the padding token's id."""

from collections.abc import Collection
from dataclasses import replace

from glassformer.checkpoints.families.bert import (
    BERT_BLOCK,
    ENCODER,
    embedding_rows,
    head_rows,
    heads,
    masked_rows,
)
from glassformer.checkpoints.families.family import ACTIVATION_WORDS, FieldMap, ModelFamily
from glassformer.checkpoints.hf_config import HFConfig
from glassformer.checkpoints.tensor_map import TensorMap, parts
from glassformer.errors import CheckpointError
from glassformer.layers.config import Count
from glassformer.models.encoder import EncoderConfig

_POOLER = {"pooler": "roberta.pooler.dense"}
_CLASSIFIER = {"pooler": "classifier.dense", "classifier": "classifier.out_proj"}
_MASKED = masked_rows("roberta", "lm_head", "dense", "layer_norm")


def _tensors(config: EncoderConfig) -> list[TensorMap]:
    return [
        *embedding_rows("roberta"),
        *parts(BERT_BLOCK, ("stack.blocks.{i}.", "roberta.encoder.layer.{i}."), "layers"),
        *head_rows(config, _POOLER, _CLASSIFIER, _MASKED),
    ]


def _read(fields: HFConfig, names: Collection[str], config: EncoderConfig) -> EncoderConfig:
    first = fields.whole("pad_token_id", 1, Count) + 1
    if first >= config.context:
        raise CheckpointError(f"{fields.where}: pad_token_id is {first - 1}, which leaves no positions to count from")
    if config.activation != "gelu" and config.head == "masked":
        raise CheckpointError(f"{fields.where}: hidden_act is {config.activation}, but the head for masks has gelu")
    return replace(config, position_offset=first, context=config.context - first)


def _write(config: EncoderConfig) -> dict[str, object]:
    offset = config.position_offset
    if offset == 0:
        raise FAMILY_ROBERTA.refusal("position_offset", offset, "1 or more")
    if config.head == "masked" and config.activation != "gelu":
        raise FAMILY_ROBERTA.refusal("activation", config.activation, "'gelu' beside a head for masks")
    return {"max_position_embeddings": offset + config.context, "pad_token_id": offset - 1}


FAMILY_ROBERTA = replace(
    ENCODER,
    model_type="roberta",
    name="RoBERTa",
    defaults=replace(ENCODER.defaults, vocab=50265),
    tensors=_tensors,
    architectures=heads("Roberta"),
    read=_read,
    write=_write,
    exceptions={*ENCODER.exceptions, "position_offset"},
    base="roberta.",
)

_SIDE = "decoder.sentence_encoder"
_FAIRSEQ_BLOCK = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.out_proj",
    "attention_norm": "self_attn_layer_norm",
    "feed_forward.up": "fc1",
    "feed_forward.down": "fc2",
    "feed_forward_norm": "final_layer_norm",
}
_FAIRSEQ = [
    TensorMap("embedding.weight", f"{_SIDE}.embed_tokens.weight"),
    TensorMap("positions.weight", f"{_SIDE}.embed_positions.weight"),
    *parts(_FAIRSEQ_BLOCK, ("stack.blocks.{i}.", f"{_SIDE}.layers.{{i}}."), "layers"),
    *parts({"masked_head.transform": "dense", "masked_head.norm": "layer_norm"}, ("", "decoder.lm_head.")),
    *parts({"norm": f"{_SIDE}.emb_layer_norm"}),
    TensorMap("masked_head.bias", "decoder.lm_head.bias"),
    TensorMap("", "decoder.lm_head.weight", same_as=f"{_SIDE}.embed_tokens.weight"),
]
FAMILY_FAIRSEQ = ModelFamily(
    "fairseq-roberta",
    "fairseq's RoBERTa",
    EncoderConfig(token_types=0, head="masked", eps=1e-5),
    [
        FieldMap("vocab", "vocab_size", required=True),
        FieldMap("context", "max_positions", required=True),
        FieldMap("dim", "encoder_embed_dim", required=True),
        FieldMap("layers", "encoder_layers", required=True),
        FieldMap("heads", "encoder_attention_heads", required=True),
        FieldMap("ffn_dim", "encoder_ffn_embed_dim", required=True),
        FieldMap("activation", "activation_fn", words=ACTIVATION_WORDS),
    ],
    lambda _: _FAIRSEQ,
    read=lambda fields, _, config: replace(config, position_offset=fields.whole("padding_idx", 1, Count) + 1),
    read_only=True,
)
