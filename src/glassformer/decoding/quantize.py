"""Weights in another form for decoding: packed once for the processor, or coarser, with eight or four bits each.

A model in another form is a copy that can only run; training goes on with the original.
"""

import copy
import warnings
from typing import Literal

import torch
from torch import Tensor, nn

from glassformer.equations.algebra import linear
from glassformer.equations.quantization import int4_linear, int8_linear, pack_nibbles, quantize_rows
from glassformer.errors import DecodingError
from glassformer.layers.linear import Linear
from glassformer.layers.model import Model
from glassformer.models.gpt import GPT
from glassformer.models.llama import Llama
from glassformer.models.rnn import RNN
from glassformer.models.seq2seq import Seq2Seq
from glassformer.models.t5 import T5
from glassformer.recording import MODE

Form = Literal["packed", "int8", "int4"]
GROUP = 32  # inputs that share a scale at four bits, or as many of these as divide them
PACKED_ROWS = 64  # rows from which an ordinary product is as fast as one with packed weights


class PackedLinear(nn.Module):
    """A linear map whose weights are laid out for the processor once, not at every call; the numbers are the same."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        # [outputs, inputs] in memory, seen as [inputs, outputs]: a row of the product reads one stretch
        self.register_buffer("weight", weight.T.contiguous().T)
        self.register_buffer("bias", bias)
        self._packs: dict[int, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        """Map the last axis."""
        rows = x.numel() // x.shape[-1]
        here = x.device.type == "cpu" and x.dtype == torch.float32 and 1 < rows <= PACKED_ROWS
        if (
            not here
            or MODE.watcher is not None
            or torch.compiler.is_compiling()
            or not torch.backends.mkl.is_available()
        ):
            return linear(x, self.weight, self.bias)
        if rows not in self._packs:
            self._packs[rows] = torch.ops.mkl._mkl_reorder_linear_weight(self.weight.T, rows)
        return torch.ops.mkl._mkl_linear(x, self._packs[rows], self.weight.T, self.bias, rows)


class Int8Linear(nn.Module):
    """A linear map with weights of eight bits. On a processor, when nobody looks, it rounds its inputs too."""

    quantized: Tensor
    scales: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        quantized, scales = quantize_rows(weight.T, 127)
        self.register_buffer("quantized", quantized.contiguous())
        self.register_buffer("scales", scales.squeeze(-1).to(weight.dtype))
        self.register_buffer("bias", bias)
        self._packed: object | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Map the last axis."""
        here = x.device.type == "cpu" and x.dtype == torch.float32
        if not here or MODE.watcher is not None or torch.compiler.is_compiling():
            return int8_linear(x, self.quantized, self.scales, self.bias)
        if self._packed is None:
            zeros = torch.zeros(len(self.scales), dtype=torch.long)
            near = self.quantized * self.scales[:, None]
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore"
                )  # torch means to drop this kind of tensor, and has no such kernel without
                whole = torch.quantize_per_channel(near, self.scales, zeros, 0, torch.qint8)
            self._packed = torch.ops.quantized.linear_prepack(whole, self.bias)
        return torch.ops.quantized.linear_dynamic(x, self._packed, True)


class Int4Linear(nn.Module):
    """A linear map with weights of four bits, a scale for each group of inputs."""

    quantized: Tensor
    scales: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        groups = max(1, len(weight) // GROUP) if len(weight) % GROUP == 0 else 1
        quantized, scales = quantize_rows(weight.T.unflatten(-1, (groups, -1)), 7)
        self.register_buffer("quantized", pack_nibbles(quantized.flatten(-2)).contiguous())
        self.register_buffer("scales", scales.squeeze(-1).to(weight.dtype).contiguous())
        self.register_buffer("bias", bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map the last axis."""
        return int4_linear(x, self.quantized, self.scales, self.bias)


FORMS: dict[Form, type[PackedLinear] | type[Int8Linear] | type[Int4Linear]] = {
    "packed": PackedLinear,
    "int8": Int8Linear,
    "int4": Int4Linear,
}


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
        for name, part in list(module.named_children()):
            if isinstance(part, Linear):
                setattr(module, name, kind(part.weight.data, None if part.bias is None else part.bias.data))
    if isinstance(made, GPT | Llama | Seq2Seq | T5) and made.output is None:
        shrink = made.config.dim**-0.5 if isinstance(made, T5) else 1.0  # a tied T5 scales its rows before scoring
        made.output = kind(made.embedding.weight.data.T * shrink, None)
    return made
