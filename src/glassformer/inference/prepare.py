"""A model in another form for decoding: its weights packed once for the processor, or coarser, eight or four bits each.

A model in another form is a copy that can only run; training goes on with the original.
"""

import copy
from typing import Literal, cast

import torch
from torch import Tensor, nn

from glassformer.errors import DecodingError
from glassformer.inference.fused_block import FusedBlock
from glassformer.inference.linear import Int4Linear, Int8Linear, PackedLinear
from glassformer.layers.attention import Attention
from glassformer.layers.block import Block
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.linear import Linear
from glassformer.layers.model import Model

Form = Literal["packed", "int8", "int4"]
Kind = type[PackedLinear] | type[Int8Linear] | type[Int4Linear]
FORMS: dict[Form, Kind] = {"packed": PackedLinear, "int8": Int8Linear, "int4": Int4Linear}


@torch.no_grad()
def for_inference(model: Model, form: Form) -> Model:
    """A copy of a model whose linear maps, and the embedding where it scores tokens, are in another form."""
    if form not in FORMS:
        raise DecodingError(f"form is {form!r}, wanted {', '.join(FORMS)}")
    if not can_convert(model):
        raise DecodingError(f"{type(model).__name__} has no blocks to convert for inference; run it as it is")
    made = copy.deepcopy(model).eval().requires_grad_(False)
    kind = FORMS[form]
    for module in list(made.modules()):
        if isinstance(module, Block):
            fuse_qkv(module.attention)
    for module in list(made.modules()):
        for name, part in list(module.named_children()):
            if isinstance(part, Linear):
                setattr(module, name, kind(part.weight.data, None if part.bias is None else part.bias.data))
            elif FusedBlock.fits(part):
                setattr(module, name, FusedBlock(cast(Block, part)))
    if isinstance(made, CausalLM | EncoderDecoder) and made.output is None:
        made.output = kind(made.embedding.weight.data.T * made.tied_output_scale, None)
    return made


def can_convert(model: Model) -> bool:
    """Whether a model has blocks that `for_inference` can convert; a recurrent one has none."""
    return any(isinstance(module, Block) for module in model.modules())


def fuse_qkv(attention: Attention) -> None:
    """Join the query, key and value projections: one large product is faster than three small ones."""
    if attention.qkv is not None:
        return
    parts = (attention.query, attention.key, attention.value)
    joined = Linear(attention.shape.dim, sum(part.weight.shape[1] for part in parts), attention.shape.bias)
    joined.weight = nn.Parameter(torch.cat([part.weight for part in parts], 1))
    biases: list[Tensor] = [part.bias for part in parts if part.bias is not None]
    joined.bias = nn.Parameter(torch.cat(biases)) if biases else None
    attention.qkv = joined
    del attention.query, attention.key, attention.value
