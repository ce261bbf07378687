"""A language model's step on CUDA, put together from kernels of our own, and for many texts the library's products.

A block takes five kernels for a few texts and some eight for many, so that a step can be captured as a graph as it
stands: there is nothing to compile but the kernels, and a model is ready in seconds. Tests hold it equal to the model.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from glassformer.decoding.forms import Int8Linear, PackedLinear
from glassformer.decoding.session import Writes
from glassformer.decoding.straight import JoinedAttention, StraightBlock
from glassformer.equations.activations import gelu, gelu_tanh, relu, silu, swiglu
from glassformer.layers.cache import Cache, Slots
from glassformer.layers.feed_forward import FeedForward, GatedFeedForward
from glassformer.layers.normalization import LayerNorm, RMSNorm
from glassformer.models.gpt import GPT
from glassformer.models.llama import Llama

if TYPE_CHECKING:
    from glassformer.decoding.row_kernels import Norm, Turn, Weights

HAS_KERNELS = find_spec("triton") is not None  # it comes with torch for GPUs
FEW_TEXTS = 4  # texts up to which a product is best done row by row
TYPES = (torch.float32, torch.bfloat16, torch.float16)
BENT = (gelu, gelu_tanh, silu, relu)


def row_model(model: Writes, cache: Cache) -> "RowModel | None":
    """A model's steps by these kernels, into this cache, if they fit."""
    if not HAS_KERNELS or not isinstance(model, GPT | Llama) or cache.reach is not None:
        return None
    weight, few = model.embedding.weight, len(cache.own[0].keys) <= FEW_TEXTS
    maps = (PackedLinear, Int8Linear) if few else (PackedLinear,)
    fits = weight.is_cuda and weight.dtype in TYPES and isinstance(model.output, maps)
    if not fits or not all(_block_fits(block, maps) for block in model.stack.blocks):
        return None
    return RowModel(model, cache) if few else ManyRows(model, cache)


def _block_fits(block: nn.Module, kinds: tuple[type[nn.Module], ...]) -> bool:
    if not isinstance(block, StraightBlock) or block.cross is not None or block.attention.query_norm is not None:
        return False
    forward, width = block.feed_forward, block.attention.shape.width
    around = (block.around_attention, block.around_feed_forward)
    before = all(a.order == "pre" and a.alpha == 1 and isinstance(a.norm, LayerNorm | RMSNorm) for a in around)
    gated = isinstance(forward, GatedFeedForward) and forward.unit is swiglu
    plain = isinstance(forward, FeedForward) and forward.activation in BENT
    maps = [part for part in block.modules() if isinstance(part, kinds)]
    return before and (gated or plain) and len(maps) == (5 if gated else 4) and width & (width - 1) == 0


class RowModel:
    """Steps of one row a text; what it reads and writes stays where it is."""

    def __init__(self, model: GPT | Llama, cache: Cache) -> None:
        from glassformer.decoding import row_kernels  # noqa: PLC0415 - needs triton

        self.kernels, self.model, self.cache = row_kernels, model, cache
        bent = (row_kernels.GELU, row_kernels.GELU_TANH, row_kernels.SILU, row_kernels.RELU)
        self.activations: dict[Callable[[Tensor], Tensor], int] = dict(zip(BENT, bent, strict=True))
        assert isinstance(cache.filled, Tensor)
        self.filled = cache.filled
        self.blocks = [cast(StraightBlock, block) for block in model.stack.blocks]
        shape = self.blocks[0].attention.shape
        self.attend = row_kernels.Attend(len(cache.own[0].keys), shape.heads, shape.width, cache.filled.device)
        self.turns = [self._turn(block.attention) for block in self.blocks]

    def scores(self, ids: Tensor) -> Tensor:
        """Scores [texts, vocab] after reading a token [texts, 1] each into the cache."""
        x = self._embedded(ids)
        for block, own, turn in zip(self.blocks, self.cache.own, self.turns, strict=True):
            x = self._block(x, block, own, turn)
        self.filled.add_(1)
        return self.kernels.product(x, self._weights(self.model.output), self._norm(self.model.stack.norm))

    def _embedded(self, ids: Tensor) -> Tensor:
        x = self.model.embedding(ids)
        if isinstance(self.model, GPT):
            x = self.model.positions(x, places=self.cache.places(1, x.device))
        return x.squeeze(1)

    def _attended(self, every: Tensor, attention: JoinedAttention, own: Slots, turn: "Turn | None") -> Tensor:
        scale = attention.shape.width**-0.5 if attention.scale is None else attention.scale
        return self.attend(every, own.keys, own.values, self.filled, self.cache.padding, scale, turn)

    def _block(self, x: Tensor, block: StraightBlock, own: Slots, turn: "Turn | None") -> Tensor:
        product, attention, forward = self.kernels.product, block.attention, block.feed_forward
        every = product(x, self._weights(attention.joined), self._norm(block.around_attention.norm))
        mixed = self._attended(every, attention, own, turn)
        x = product(mixed, self._weights(attention.output), past=x)
        norm = self._norm(block.around_feed_forward.norm)
        if isinstance(forward, GatedFeedForward):
            gate, up = self._weights(forward.gate), self._weights(forward.up)
            wide = product(x, gate, norm, self.kernels.SILU, up)
        else:
            assert isinstance(forward, FeedForward)
            wide = product(x, self._weights(forward.up), norm, self.activations[forward.activation])
        return product(wide, self._weights(cast(nn.Module, forward.down)), past=x)

    def _weights(self, part: nn.Module | None) -> "Weights":
        if isinstance(part, Int8Linear):
            return self.kernels.Weights(part.quantized, part.scales, part.bias)
        assert isinstance(part, PackedLinear)
        return self.kernels.Weights(part.weight.T, None, part.bias)

    def _norm(self, norm: nn.Module | None) -> "Norm":
        assert isinstance(norm, LayerNorm | RMSNorm)
        return self.kernels.Norm(norm.weight, norm.bias if isinstance(norm, LayerNorm) else None, norm.eps)

    def _turn(self, attention: JoinedAttention) -> "Turn | None":
        rotary = attention.rotary
        if rotary is None:
            return None
        frequencies = rotary.scaling.frequencies(rotary.head_dim, rotary.base, self.model.embedding.weight)
        return self.kernels.Turn(frequencies.contiguous(), rotary.layout == "adjacent", rotary.scaling.temperature)


class ManyRows(RowModel):
    """The same for many texts: products are the library's, and a residual is added with the norm after it."""

    def scores(self, ids: Tensor) -> Tensor:
        """Scores [texts, vocab] after reading a token [texts, 1] each into the cache."""
        x, output = self._embedded(ids), self.model.output
        first, *rest = [block.around_attention.norm for block in self.blocks]
        h = first(x)
        after = [*rest, self.model.stack.norm]
        for block, own, turn, norm in zip(self.blocks, self.cache.own, self.turns, after, strict=True):
            attention, forward = block.attention, block.feed_forward
            mixed = self._attended(attention.joined(h), attention, own, turn)
            x, h = self._added(x, mixed, attention.output, block.around_feed_forward.norm)
            x, h = self._added(x, self._widened(h, forward), forward.down, norm)
        self.filled.add_(1)
        assert isinstance(output, PackedLinear)
        return functional.linear(h, output.aligned())[:, : output.weight.shape[1]]

    def _widened(self, h: Tensor, forward: nn.Module) -> Tensor:
        if isinstance(forward, GatedFeedForward):
            return forward.unit(forward.gate(h), forward.up(h))
        assert isinstance(forward, FeedForward)
        return forward.activation(forward.up(h))

    def _added(self, x: Tensor, narrow: Tensor, part: object, norm: nn.Module | None) -> tuple[Tensor, Tensor]:
        assert isinstance(part, PackedLinear)
        change = functional.linear(narrow, part.weight.T)
        return self.kernels.add_normed(x, change, part.bias, self._norm(norm))
