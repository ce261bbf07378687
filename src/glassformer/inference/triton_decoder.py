"""A language model's decoding step on CUDA from Triton kernels, with cuBLAS products for large batches.

A block takes five kernels for a few texts and about eight for many, few enough to capture the step as a CUDA graph
without a compiler: only the kernels are compiled, in seconds. Tests hold it equal to the model.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from glassformer.equations.activations import gelu, gelu_tanh, relu, silu
from glassformer.equations.gated import swiglu
from glassformer.inference.fused_attention import FusedAttention
from glassformer.inference.linear import Int8Linear, PackedLinear
from glassformer.layers.basic import FeedForward, GatedFeedForward, LayerNorm, RMSNorm
from glassformer.layers.block import Attention, Block
from glassformer.layers.cache import KVCache, LayerKV
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.model import Model
from glassformer.layers.rotary import Rotary

if TYPE_CHECKING:
    from glassformer.inference.triton_kernels import Norm, Rotation, Weights

HAS_TRITON = find_spec("triton") is not None  # it comes with torch for GPUs
FEW_TEXTS = 4  # texts up to which our matrix-vector kernel beats cuBLAS
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
ACTIVATIONS = (gelu, gelu_tanh, silu, relu)


def triton_decoder(model: Model, cache: KVCache) -> "TritonDecoder | None":
    """A decoder that steps a model with Triton kernels into this cache, if they fit the model."""
    if not HAS_TRITON or not isinstance(model, CausalLM) or not kernels_fit(model, cache):
        return None
    weight = model.embedding.weight
    if not weight.is_cuda or weight.dtype not in DTYPES:
        return None
    return TritonDecoder(model, cache) if has_few_texts(cache) else TritonBatchDecoder(model, cache)


def kernels_fit(model: Model, cache: KVCache) -> bool:
    """Whether the kernels compute what a converted model does with this cache, on whatever device both are."""
    if not isinstance(model, CausalLM) or cache.window is not None:
        return False
    if type(model).unembed is not CausalLM.unembed:  # the kernels end with a plain product
        return False
    linears = (PackedLinear, Int8Linear) if has_few_texts(cache) else (PackedLinear,)
    return isinstance(model.output, linears) and all(_block_fits(block, linears) for block in model.stack.blocks)


def has_few_texts(cache: KVCache) -> bool:
    """Whether a cache has so few texts that matrix-vector kernels beat cuBLAS."""
    return len(cache.self_kv[0].keys) <= FEW_TEXTS


def _block_fits(block: nn.Module, linears: tuple[type[nn.Module], ...]) -> bool:
    if not isinstance(block, Block) or block.cross_attention is not None or not block.norm_first:
        return False
    attention, forward, head_dim = block.attention, block.feed_forward, block.attention.shape.head_dim
    norms = all(isinstance(norm, LayerNorm | RMSNorm) for norm in (block.attention_norm, block.feed_forward_norm))
    unscaled = all(add.scale == 1 for add in (block.attention_residual, block.feed_forward_residual))
    gated = isinstance(forward, GatedFeedForward) and forward.unit is swiglu
    plain = isinstance(forward, FeedForward) and forward.activation in ACTIVATIONS
    converted = len([part for part in block.modules() if isinstance(part, linears)]) == (5 if gated else 4)
    fused = isinstance(attention, FusedAttention) and attention.query_norm is None and head_dim & (head_dim - 1) == 0
    return norms and unscaled and (gated or plain) and converted and fused


class TritonDecoder:
    """Steps of one token per text, in static buffers."""

    def __init__(self, model: CausalLM, cache: KVCache) -> None:
        from glassformer.inference import triton_kernels as kernels  # noqa: PLC0415 - needs triton

        self.kernels, self.model, self.cache = kernels, model, cache
        codes = (kernels.GELU, kernels.GELU_TANH, kernels.SILU, kernels.RELU)
        self.activations: dict[Callable[[Tensor], Tensor], int] = dict(zip(ACTIVATIONS, codes, strict=True))
        assert isinstance(cache.length, Tensor)
        self.length = cache.length
        self.blocks = [cast(Block, block) for block in model.stack.blocks]
        shape = self.blocks[0].attention.shape
        self.attend = kernels.Attend(len(cache.self_kv[0].keys), shape.heads, shape.head_dim, cache.length.device)
        self.rotations = [self._rotation(block.attention) for block in self.blocks]

    def logits(self, ids: Tensor) -> Tensor:
        """Logits [texts, vocab] after reading a token [texts, 1] each into the cache."""
        x = self.model.embed(ids, self.cache.positions(1, ids.device)).squeeze(1)
        for block, kv, rotation in zip(self.blocks, self.cache.self_kv, self.rotations, strict=True):
            x = self._block(x, block, kv, rotation)
        self.length.add_(1)
        return self.kernels.product(x, self._weights(self.model.output), self._norm(self.model.stack.norm))

    def _attention(self, qkv: Tensor, attention: Attention, kv: LayerKV, rotation: "Rotation | None") -> Tensor:
        scale = attention.shape.head_dim**-0.5 if attention.scale is None else attention.scale
        return self.attend(qkv, kv.keys, kv.values, self.length, self.cache.padding, scale, rotation)

    def _block(self, x: Tensor, block: Block, kv: LayerKV, rotation: "Rotation | None") -> Tensor:
        product, attention, forward = self.kernels.product, block.attention, block.feed_forward
        qkv = product(x, self._weights(attention.qkv), self._norm(block.attention_norm))
        mixed = self._attention(qkv, attention, kv, rotation)
        x = product(mixed, self._weights(attention.output), residual=x)
        norm = self._norm(block.feed_forward_norm)
        if isinstance(forward, GatedFeedForward):
            gate, up = self._weights(forward.gate), self._weights(forward.up)
            hidden = product(x, gate, norm, self.kernels.SILU, up)
        else:
            assert isinstance(forward, FeedForward)
            hidden = product(x, self._weights(forward.up), norm, self.activations[forward.activation])
        return product(hidden, self._weights(cast(nn.Module, forward.down)), residual=x)

    def _weights(self, linear: nn.Module | None) -> "Weights":
        if isinstance(linear, Int8Linear):
            return self.kernels.Weights(linear.quantized, linear.scales, linear.bias)
        assert isinstance(linear, PackedLinear)
        return self.kernels.Weights(linear.weight.T, None, linear.bias)

    def _norm(self, norm: nn.Module | None) -> "Norm":
        assert isinstance(norm, LayerNorm | RMSNorm)
        return self.kernels.Norm(norm.weight, norm.bias if isinstance(norm, LayerNorm) else None, norm.eps)

    def _rotation(self, attention: Attention) -> "Rotation | None":
        rotary = attention.rotary
        if not isinstance(rotary, Rotary):
            return None
        frequencies = rotary.scaling.frequencies(rotary.head_dim, rotary.theta, self.model.embedding.weight)
        return self.kernels.Rotation(frequencies.contiguous(), rotary.layout == "adjacent", rotary.scaling.temperature)


class TritonBatchDecoder(TritonDecoder):
    """The same for many texts: products by cuBLAS, and each residual added together with the norm after it."""

    def logits(self, ids: Tensor) -> Tensor:
        """Logits [texts, vocab] after reading a token [texts, 1] each into the cache."""
        x, output = self.model.embed(ids, self.cache.positions(1, ids.device)).squeeze(1), self.model.output
        first, *rest = [block.attention_norm for block in self.blocks]
        h = first(x)
        next_norms = [*rest, self.model.stack.norm]
        for block, kv, rotation, norm in zip(self.blocks, self.cache.self_kv, self.rotations, next_norms, strict=True):
            attention, forward = block.attention, block.feed_forward
            assert attention.qkv is not None
            mixed = self._attention(attention.qkv(h), attention, kv, rotation)
            x, h = self._project_and_add(x, mixed, attention.output, block.feed_forward_norm)
            if isinstance(forward, GatedFeedForward):
                hidden = forward.unit(forward.gate(h), forward.up(h))
            else:
                assert isinstance(forward, FeedForward)
                hidden = forward.activation(forward.up(h))
            x, h = self._project_and_add(x, hidden, forward.down, norm)
        self.length.add_(1)
        assert isinstance(output, PackedLinear)
        return functional.linear(h, output.aligned())[:, : output.weight.shape[1]]

    def _project_and_add(self, x: Tensor, h: Tensor, linear: object, norm: nn.Module | None) -> tuple[Tensor, Tensor]:
        assert isinstance(linear, PackedLinear)
        change = functional.linear(h, linear.weight.T)
        return self.kernels.add_norm(x, change, linear.bias, self._norm(norm))
