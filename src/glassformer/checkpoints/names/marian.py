"""Marian: the translator of 2017 with waves laid out in halves and a bias on the scores; BART learns its places."""

from glassformer.checkpoints.tensor_map import TensorMap, pair


def _attention(ours: str, theirs: str, per: str) -> list[TensorMap]:
    names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
    return [row for a, b in names.items() for row in pair(f"{ours}.{a}", f"{theirs}.{b}", per, transposed=True)]


def _stack(side: str, per: str) -> list[TensorMap]:
    ours, theirs = f"{side}.blocks.{{i}}", f"model.{side}.layers.{{i}}"
    return [
        *_attention(f"{ours}.attention", f"{theirs}.self_attn", per),
        *pair(f"{ours}.attention_norm", f"{theirs}.self_attn_layer_norm", per),
        *pair(f"{ours}.feed_forward.up", f"{theirs}.fc1", per, transposed=True),
        *pair(f"{ours}.feed_forward.down", f"{theirs}.fc2", per, transposed=True),
        *pair(f"{ours}.feed_forward_norm", f"{theirs}.final_layer_norm", per),
    ]


TRANSLATOR = [
    TensorMap("embedding.weight", "model.shared.weight"),
    *_stack("encoder", "layers"),
    *_stack("decoder", "decoder_layers"),
    *_attention("decoder.blocks.{i}.cross_attention", "model.decoder.layers.{i}.encoder_attn", "decoder_layers"),
    *pair("decoder.blocks.{i}.cross_norm", "model.decoder.layers.{i}.encoder_attn_layer_norm", "decoder_layers"),
    TensorMap((), "lm_head.weight", same_as="model.shared.weight"),
    TensorMap((), "model.encoder.embed_tokens.weight", same_as="model.shared.weight"),
    TensorMap((), "model.decoder.embed_tokens.weight", same_as="model.shared.weight"),
]
OUTPUT_BIAS = [TensorMap("output_bias", "final_logits_bias", unsqueezed=True)]  # files of the bare model lack it
MARIAN = [
    *TRANSLATOR,
    TensorMap((), "model.encoder.embed_positions.weight", derived="waves"),
    TensorMap((), "model.decoder.embed_positions.weight", derived="waves"),
]
BART = [
    *TRANSLATOR,
    TensorMap("source_start.0.weight", "model.encoder.embed_positions.weight"),
    *pair("source_start.1", "model.encoder.layernorm_embedding"),
    TensorMap("target_start.0.weight", "model.decoder.embed_positions.weight"),
    *pair("target_start.1", "model.decoder.layernorm_embedding"),
]
