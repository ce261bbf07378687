"""A model in another form for decoding: its weights packed once for the processor, or coarser, eight or four bits each.

A model in another form is a copy that can only run; training goes on with the original.
"""

import copy
from typing import Literal, cast

import torch

from glassformer.decoding.forms import Int4Linear, Int8Linear, PackedLinear
from glassformer.decoding.straight import JoinedAttention, StraightBlock
from glassformer.errors import DecodingError
from glassformer.layers.block import Block
from glassformer.layers.linear import Linear
from glassformer.layers.model import Model
from glassformer.models.gpt import GPT
from glassformer.models.llama import Llama
from glassformer.models.rnn import RNN
from glassformer.models.seq2seq import Seq2Seq
from glassformer.models.t5 import T5

Form = Literal["packed", "int8", "int4"]
Kind = type[PackedLinear] | type[Int8Linear] | type[Int4Linear]
FORMS: dict[Form, Kind] = {"packed": PackedLinear, "int8": Int8Linear, "int4": Int4Linear}


@torch.no_grad()
def in_form(model: Model, form: Form) -> Model:
    """A copy of a model whose linear maps, and the embedding where it scores tokens, are in another form."""
    if form not in FORMS:
        raise DecodingError(f"form is {form!r}, wanted {', '.join(FORMS)}")
    if isinstance(model, RNN):
        raise DecodingError("RNN has no other form of its weights; run it as it is")
    made = copy.deepcopy(model).eval().requires_grad_(False)
    kind = FORMS[form]
    for module in list(made.modules()):
        if isinstance(module, Block):
            module.attention = JoinedAttention(module.attention, kind)
    for module in list(made.modules()):
        for name, part in list(module.named_children()):
            if isinstance(part, Linear):
                setattr(module, name, kind(part.weight.data, None if part.bias is None else part.bias.data))
            elif StraightBlock.fits(part):
                setattr(module, name, StraightBlock(cast(Block, part)))
    if isinstance(made, GPT | Llama | Seq2Seq | T5) and made.output is None:
        shrink = made.config.dim**-0.5 if isinstance(made, T5) else 1.0  # a tied T5 scales its rows before scoring
        made.output = kind(made.embedding.weight.data.T * shrink, None)
    return made
