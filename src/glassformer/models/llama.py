"""Llama, Mistral, Qwen2: rotary positions, RMS norms, gated feed-forward, grouped queries (Touvron et al., 2023)."""

from dataclasses import dataclass

import torch
from torch import nn

from glassformer.equations.gated import swiglu
from glassformer.equations.initialization import normal
from glassformer.layers.basic import Embedding, GatedFeedForward, Linear, RMSNorm
from glassformer.layers.block import Attention, AttentionShape, Block, Causal, Stack
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.config import Config, Layers, NotNegative, Positive, Size
from glassformer.layers.rotary import RopeScaling, Rotary
from glassformer.layers.sparse_attention import SlidingWindow


@dataclass(frozen=True, kw_only=True)
class LlamaConfig(Config):
    """Sizes of a Llama; a `window` makes it a Mistral, `qkv_bias` a Qwen2."""

    vocab: Size = 32000
    context: Size = 2048
    dim: Size = 4096
    layers: Layers = 32
    heads: Size = 32
    kv_heads: Size | None = None
    head_dim: Size | None = None
    ffn_dim: Size = 11008
    rope_theta: Positive = 10000.0
    rope_scaling: RopeScaling | None = None
    window: Size | None = None
    qkv_bias: bool = False
    output_bias: bool = False
    feed_forward_bias: bool = False
    tie_embeddings: bool = False
    eps: NotNegative = 1e-5


class Llama(CausalLM):
    """Token ids in, logits for each next token out."""

    config: LlamaConfig

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config)
        self.embedding = Embedding(config.vocab, config.dim)
        self.stack = Stack([self._block() for _ in range(config.layers)], norm=self._norm())
        self.output: nn.Module | None = None if config.tie_embeddings else Linear(config.dim, config.vocab, bias=False)

    @property
    def reads_past_context(self) -> bool:
        """With a sliding window."""
        return self.config.window is not None

    def _norm(self) -> RMSNorm:
        return RMSNorm(self.config.dim, self.config.eps)

    def _block(self) -> Block:
        config = self.config
        shape = AttentionShape.of(
            dim=config.dim,
            heads=config.heads,
            kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            bias=config.qkv_bias,
            output_bias=config.output_bias,
        )
        pattern = Causal() if config.window is None else SlidingWindow(window=config.window)
        return Block(
            Attention(shape, pattern, Rotary(shape.head_dim, config.rope_theta, config.rope_scaling)),
            GatedFeedForward(config.dim, config.ffn_dim, swiglu, config.feed_forward_bias),
            norm=self._norm,
        )

    @torch.no_grad()
    def init_weights(self, generator: torch.Generator | None = None) -> None:
        """Draw fresh weights: normal with std 0.02."""
        for weight in self.parameters():
            if weight.dim() > 1:
                weight.copy_(normal(tuple(weight.shape), 0.02, generator))
