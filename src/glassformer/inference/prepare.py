"""Convert a model for inference: fused attention, and weights packed for the CPU or quantized to eight or four bits.

A converted model computes the same function, exactly or within the rounding of its weights, and cannot be trained.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Literal

import torch
from torch import nn

from glassformer.equation import no_checks
from glassformer.errors import DecodingError
from glassformer.inference.fused_attention import FusedAttention
from glassformer.inference.linear import Int4Linear, Int8Linear, PackedLinear
from glassformer.layers.basic import Linear
from glassformer.layers.block import Attention, Block
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.lora import merge_layers
from glassformer.layers.model import Model

Generator = CausalLM | EncoderDecoder
Form = Literal["packed", "int8", "int4"]
InferenceLinear = type[PackedLinear] | type[Int8Linear] | type[Int4Linear]
FORMS: dict[Form, InferenceLinear] = {"packed": PackedLinear, "int8": Int8Linear, "int4": Int4Linear}


def require_source_reader(model: Model, verb: str) -> None:
    """Raise on a model without an encoder, which cannot translate or summarize, as the verb says."""
    if not (isinstance(model, Generator) and model.reads_source):
        raise DecodingError(f"{type(model).__name__} does not {verb}: it has no encoder to read a source with")


def require_generator(model: Model) -> Generator:
    """The model, if it predicts next tokens."""
    if not isinstance(model, nn.Module):
        what = f"model is of the type {type(model).__name__}, wanted a model"
        raise DecodingError(f"{what}; what gf.load returns generates by its own method: .generate(prompt)")
    if not isinstance(model, Generator):
        raise DecodingError(f"{type(model).__name__} does not write text: it has no next token to choose")
    return model


@contextmanager
def inference_mode(model: Model, modules: Sequence[nn.Module] | None = None) -> Iterator[None]:
    """Run a model without dropout, gradients and checks of every equation, then restore its training mode.

    A step gives its `modules`, since walking a model takes longer than a small step.
    """
    training = [module for module in (modules or model.modules()) if module.training]
    for module in training:
        module.training = False
    try:
        with torch.no_grad(), no_checks():
            yield
    finally:
        for module in training:
            module.training = True


@torch.no_grad()
def for_inference(model: Model, form: Form, copy: bool = True) -> Model:
    """Convert the linear layers of a model, and a tied embedding's output, to another form; LoRA layers are merged.

    Without `copy` the model itself is converted, and each weight is freed as soon as it is replaced.
    """
    if form not in FORMS:
        raise DecodingError(f"form is {form!r}, wanted {', '.join(FORMS)}")
    if not can_convert(model):
        raise DecodingError(f"{type(model).__name__} has no blocks to convert for inference; run it as it is")
    model = deepcopy(model) if copy else model
    merge_layers(model)
    model.requires_grad_(False)
    _convert(model, FORMS[form])
    if isinstance(model, Generator) and model.output is None:
        weight, scale = model.embedding.weight.data.T, model.tied_output_scale
        model.output = FORMS[form](weight if scale == 1 else weight * scale, None)  # packed, they share memory
    for module in model.modules():  # as plain attributes children are found without torch's slow __getattr__
        vars(module).update(module.named_children())
    return model.eval()


def can_convert(model: Model) -> bool:
    """Whether a model has blocks that `for_inference` can convert; a recurrent one has none."""
    return any(isinstance(module, Block) for module in model.modules())


def _convert(module: nn.Module, linear: InferenceLinear) -> None:
    """Replace linear layers and attention below a module one by one, keeping no reference to what was replaced."""
    if isinstance(module, Block) and module.attention.qkv is None:
        _fuse_qkv(module.attention, linear)
    for name in [name for name, _ in module.named_children()]:
        part = getattr(module, name)
        if isinstance(part, Linear):
            setattr(module, name, linear(part.weight.data, None if part.bias is None else part.bias.data))
            continue
        _convert(part, linear)
        if isinstance(part, Attention) and FusedAttention.fits(part):
            setattr(module, name, FusedAttention(part))


def _fuse_qkv(attention: Attention, linear: InferenceLinear) -> None:
    """Join the query, key and value projections: one large product is faster than three small ones."""
    parts = (attention.query, attention.key, attention.value)
    biases = [part.bias.data for part in parts if part.bias is not None]
    weight = torch.cat([part.weight.data for part in parts], 1)
    attention.qkv = linear(weight, torch.cat(biases) if biases else None)
    del attention.query, attention.key, attention.value
