"""Llama, and with it Mistral and Qwen2, which add biases to queries, keys and values."""

from glassformer.checkpoints.naming import Row


def _llama_row(ours: str, theirs: str, part: str = "weight") -> Row:
    """One tensor of a block; matrices are stored as [outputs, inputs]."""
    turned = part == "weight" and "norm" not in ours
    return Row(f"stack.blocks.{{i}}.{ours}.{part}", f"model.layers.{{i}}.{theirs}.{part}", turned=turned, per="layers")


LLAMA = [
    Row("embedding.weight", "model.embed_tokens.weight"),
    _llama_row("around_attention.norm", "input_layernorm"),
    _llama_row("attention.query", "self_attn.q_proj"),
    _llama_row("attention.key", "self_attn.k_proj"),
    _llama_row("attention.value", "self_attn.v_proj"),
    _llama_row("attention.output", "self_attn.o_proj"),
    _llama_row("around_feed_forward.norm", "post_attention_layernorm"),
    _llama_row("feed_forward.gate", "mlp.gate_proj"),
    _llama_row("feed_forward.up", "mlp.up_proj"),
    _llama_row("feed_forward.down", "mlp.down_proj"),
    Row("stack.norm.weight", "model.norm.weight"),
    Row((), "model.layers.{i}.self_attn.rotary_emb.inv_freq", derived="frequencies", per="layers"),
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
LLAMA_UNTIED = [Row("output.weight", "lm_head.weight", turned=True)]
LLAMA_TIED = [Row((), "lm_head.weight", same_as="model.embed_tokens.weight")]
