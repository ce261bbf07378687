"""Llama, and with it Mistral and Qwen2, which add biases to queries, keys and values."""

from glassformer.checkpoints.tensor_map import TensorMap


def _llama_row(ours: str, theirs: str, part: str = "weight") -> TensorMap:
    """One tensor of a block; matrices are stored as [outputs, inputs]."""
    turned = part == "weight" and "norm" not in ours
    return TensorMap(
        f"stack.blocks.{{i}}.{ours}.{part}", f"model.layers.{{i}}.{theirs}.{part}", transposed=turned, per="layers"
    )


LLAMA = [
    TensorMap("embedding.weight", "model.embed_tokens.weight"),
    _llama_row("attention_norm", "input_layernorm"),
    _llama_row("attention.query", "self_attn.q_proj"),
    _llama_row("attention.key", "self_attn.k_proj"),
    _llama_row("attention.value", "self_attn.v_proj"),
    _llama_row("attention.output", "self_attn.o_proj"),
    _llama_row("feed_forward_norm", "post_attention_layernorm"),
    _llama_row("feed_forward.gate", "mlp.gate_proj"),
    _llama_row("feed_forward.up", "mlp.up_proj"),
    _llama_row("feed_forward.down", "mlp.down_proj"),
    TensorMap("stack.norm.weight", "model.norm.weight"),
    TensorMap((), "model.layers.{i}.self_attn.rotary_emb.inv_freq", derived="frequencies", per="layers"),
]
LLAMA_BIASES = [
    _llama_row("attention.query", "self_attn.q_proj", "bias"),
    _llama_row("attention.key", "self_attn.k_proj", "bias"),
    _llama_row("attention.value", "self_attn.v_proj", "bias"),
]
LLAMA_OUTPUT_BIAS = [_llama_row("attention.output", "self_attn.o_proj", "bias")]
LLAMA_FEED_FORWARD_BIASES = [
    _llama_row("feed_forward.gate", "mlp.gate_proj", "bias"),
    _llama_row("feed_forward.up", "mlp.up_proj", "bias"),
    _llama_row("feed_forward.down", "mlp.down_proj", "bias"),
]
LLAMA_UNTIED = [TensorMap("output.weight", "lm_head.weight", transposed=True)]
LLAMA_TIED = [TensorMap((), "lm_head.weight", same_as="model.embed_tokens.weight")]
