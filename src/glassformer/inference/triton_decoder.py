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

from glassformer.equations.activations import gelu, gelu_tanh, relu, silu
from glassformer.equations.gated import swiglu
from glassformer.inference.fused_block import FusedBlock
from glassformer.inference.linear import Int8Linear, PackedLinear
from glassformer.layers.attention import Attention
from glassformer.layers.cache import KVCache, LayerKV
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.feed_forward import FeedForward, GatedFeedForward
from glassformer.layers.model import Model
from glassformer.layers.normalization import LayerNorm, RMSNorm

if TYPE_CHECKING:
    from glassformer.inference.triton_kernels import Norm, Turn, Weights

HAS_KERNELS = find_spec("triton") is not None  # it comes with torch for GPUs
FEW_TEXTS = 4  # texts up to which a product is best done row by row
TYPES = (torch.float32, torch.bfloat16, torch.float16)
BENT = (gelu, gelu_tanh, silu, relu)


def triton_decoder(model: Model, cache: KVCache) -> "TritonDecoder | None":
    """A model's steps by these kernels, into this cache, if they fit."""
    if not HAS_KERNELS or not isinstance(model, CausalLM) or cache.window is not None:
        return None
    if type(model).unembed is not CausalLM.unembed:  # the kernels end with a plain product
        return None
    weight, few = model.embedding.weight, len(cache.self_kv[0].keys) <= FEW_TEXTS
    maps = (PackedLinear, Int8Linear) if few else (PackedLinear,)
    fits = weight.is_cuda and weight.dtype in TYPES and isinstance(model.output, maps)
    if not fits or not all(_block_fits(block, maps) for block in model.stack.blocks):
        return None
    return TritonDecoder(model, cache) if few else TritonBatchDecoder(model, cache)


def _block_fits(block: nn.Module, kinds: tuple[type[nn.Module], ...]) -> bool:
    if not isinstance(block, FusedBlock) or block.cross_attention is not None or block.attention.query_norm is not None:
        return False
    forward, width = block.feed_forward, block.attention.shape.head_dim
    norms, adds = (
        (block.attention_norm, block.feed_forward_norm),
        (block.attention_residual, block.feed_forward_residual),
    )
    plain_norms = block.norm_first and all(isinstance(norm, LayerNorm | RMSNorm) for norm in norms)
    before = plain_norms and all(add.scale == 1 for add in adds)
    gated = isinstance(forward, GatedFeedForward) and forward.unit is swiglu
    plain = isinstance(forward, FeedForward) and forward.activation in BENT
    maps = [part for part in block.modules() if isinstance(part, kinds)]
    return before and (gated or plain) and len(maps) == (5 if gated else 4) and width & (width - 1) == 0


class TritonDecoder:
    """Steps of one row a text; what it reads and writes stays where it is."""

    def __init__(self, model: CausalLM, cache: KVCache) -> None:
        from glassformer.inference import triton_kernels  # noqa: PLC0415 - needs triton

        self.kernels, self.model, self.cache = triton_kernels, model, cache
        bent = (triton_kernels.GELU, triton_kernels.GELU_TANH, triton_kernels.SILU, triton_kernels.RELU)
        self.activations: dict[Callable[[Tensor], Tensor], int] = dict(zip(BENT, bent, strict=True))
        assert isinstance(cache.length, Tensor)
        self.filled = cache.length
        self.blocks = [cast(FusedBlock, block) for block in model.stack.blocks]
        shape = self.blocks[0].attention.shape
        self.attend = triton_kernels.Attend(
            len(cache.self_kv[0].keys), shape.heads, shape.head_dim, cache.length.device
        )
        self.turns = [self._turn(block.attention) for block in self.blocks]

    def scores(self, ids: Tensor) -> Tensor:
        """Scores [texts, vocab] after reading a token [texts, 1] each into the cache."""
        x = self._embedded(ids)
        for block, own, turn in zip(self.blocks, self.cache.self_kv, self.turns, strict=True):
            x = self._block(x, block, own, turn)
        self.filled.add_(1)
        return self.kernels.product(x, self._weights(self.model.output), self._norm(self.model.stack.norm))

    def _embedded(self, ids: Tensor) -> Tensor:
        return self.model.embed(ids, self.cache.positions(1, ids.device)).squeeze(1)

    def _attended(self, every: Tensor, attention: Attention, own: LayerKV, turn: "Turn | None") -> Tensor:
        scale = attention.shape.head_dim**-0.5 if attention.scale is None else attention.scale
        return self.attend(every, own.keys, own.values, self.filled, self.cache.padding, scale, turn)

    def _block(self, x: Tensor, block: FusedBlock, own: LayerKV, turn: "Turn | None") -> Tensor:
        product, attention, forward = self.kernels.product, block.attention, block.feed_forward
        every = product(x, self._weights(attention.qkv), self._norm(block.attention_norm))
        mixed = self._attended(every, attention, own, turn)
        x = product(mixed, self._weights(attention.output), past=x)
        norm = self._norm(block.feed_forward_norm)
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

    def _turn(self, attention: Attention) -> "Turn | None":
        rotary = attention.rotary
        if rotary is None:
            return None
        frequencies = rotary.scaling.frequencies(rotary.head_dim, rotary.theta, self.model.embedding.weight)
        return self.kernels.Turn(frequencies.contiguous(), rotary.layout == "adjacent", rotary.scaling.temperature)


class TritonBatchDecoder(TritonDecoder):
    """The same for many texts: products are the library's, and a residual is added with the norm after it."""

    def scores(self, ids: Tensor) -> Tensor:
        """Scores [texts, vocab] after reading a token [texts, 1] each into the cache."""
        x, output = self._embedded(ids), self.model.output
        first, *rest = [block.attention_norm for block in self.blocks]
        h = first(x)
        after = [*rest, self.model.stack.norm]
        for block, own, turn, norm in zip(self.blocks, self.cache.self_kv, self.turns, after, strict=True):
            attention, forward = block.attention, block.feed_forward
            assert attention.qkv is not None
            mixed = self._attended(attention.qkv(h), attention, own, turn)
            x, h = self._added(x, mixed, attention.output, block.feed_forward_norm)
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
