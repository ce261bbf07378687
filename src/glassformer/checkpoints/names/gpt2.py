"""GPT-2: its linear layers store [inputs, outputs] as ours do, queries, keys and values side by side."""

from dataclasses import replace

from glassformer.checkpoints.naming import Row, pair


def _gpt2_inputs(part: str, axis: int) -> Row:
    """Queries, keys and values, which are one tensor there."""
    ours = tuple(f"stack.blocks.{{i}}.attention.{name}.{part}" for name in ("query", "key", "value"))
    return Row(ours, f"transformer.h.{{i}}.attn.c_attn.{part}", joined=axis, per="layers")


GPT2 = [
    Row("embedding.weight", "transformer.wte.weight"),
    Row("positions.weight", "transformer.wpe.weight"),
    *pair("stack.blocks.{i}.around_attention.norm", "transformer.h.{i}.ln_1", "layers"),
    _gpt2_inputs("weight", 1),
    _gpt2_inputs("bias", 0),
    *pair("stack.blocks.{i}.attention.output", "transformer.h.{i}.attn.c_proj", "layers"),
    *pair("stack.blocks.{i}.around_feed_forward.norm", "transformer.h.{i}.ln_2", "layers"),
    *pair("stack.blocks.{i}.feed_forward.up", "transformer.h.{i}.mlp.c_fc", "layers"),
    *pair("stack.blocks.{i}.feed_forward.down", "transformer.h.{i}.mlp.c_proj", "layers"),
    *pair("stack.norm", "transformer.ln_f"),
    Row((), "transformer.h.{i}.attn.bias", derived="causality", per="layers"),
    Row((), "transformer.h.{i}.attn.masked_bias", derived="one number", per="layers"),
]
GPT2_TIED = [Row((), "lm_head.weight", same_as="transformer.wte.weight")]
GPT2_UNTIED = [Row("output.weight", "lm_head.weight", turned=True)]


def _linear(row: Row) -> Row:
    """The same tensor where matrices are stored as [outputs, inputs]."""
    matrix = row.theirs.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight"))
    return replace(row, turned=True, joined=0) if matrix else row


MINGPT = [*map(_linear, GPT2), *GPT2_UNTIED]
