"""GPT-2: its linear layers store [inputs, outputs] as ours do, with one projection for queries, keys and values."""

from dataclasses import replace

from glassformer.checkpoints.tensor_map import TensorMap, pair

GPT2 = [
    TensorMap("embedding.weight", "transformer.wte.weight"),
    TensorMap("positions.weight", "transformer.wpe.weight"),
    *pair("stack.blocks.{i}.attention_norm", "transformer.h.{i}.ln_1", "layers"),
    *pair("stack.blocks.{i}.attention.qkv", "transformer.h.{i}.attn.c_attn", "layers"),
    *pair("stack.blocks.{i}.attention.output", "transformer.h.{i}.attn.c_proj", "layers"),
    *pair("stack.blocks.{i}.feed_forward_norm", "transformer.h.{i}.ln_2", "layers"),
    *pair("stack.blocks.{i}.feed_forward.up", "transformer.h.{i}.mlp.c_fc", "layers"),
    *pair("stack.blocks.{i}.feed_forward.down", "transformer.h.{i}.mlp.c_proj", "layers"),
    *pair("stack.norm", "transformer.ln_f"),
    TensorMap((), "transformer.h.{i}.attn.bias", derived="causality", per="layers"),
    TensorMap((), "transformer.h.{i}.attn.masked_bias", derived="one number", per="layers"),
]
GPT2_TIED = [TensorMap((), "lm_head.weight", same_as="transformer.wte.weight")]
GPT2_UNTIED = [TensorMap("output.weight", "lm_head.weight", transposed=True)]


def _linear(row: TensorMap) -> TensorMap:
    """The same tensor where matrices are stored as [outputs, inputs]."""
    matrix = row.theirs.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight"))
    return replace(row, transposed=True) if matrix else row


MINGPT = [*map(_linear, GPT2), *GPT2_UNTIED]
