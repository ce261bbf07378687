"""Llama, Mistral, Qwen2: rotary positions, RMS norms, gated feed-forward, grouped queries (Touvron et al., 2023)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from glassformer.equations.gated import swiglu
from glassformer.equations.initialization import normal
from glassformer.layers.basic import Embedding, GatedFeedForward, Linear, RMSNorm
from glassformer.layers.block import Attention, AttentionShape, Block, Causal, Stack
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.config import Config, Layers, NotNegative, Positive, Size, setting
from glassformer.layers.rotary import RopeScaling, Rotary
from glassformer.layers.sparse_attention import SlidingWindow


@dataclass(frozen=True, kw_only=True)
class LlamaConfig(Config):
    """Sizes of a Llama; a `window` makes it a Mistral, `qkv_bias` a Qwen2."""

    vocab: Size = setting(32000, "Tokens in the vocabulary.")
    context: Size = setting(2048, "Most tokens the model can read at once.", 256)
    dim: Size = setting(4096, "Dimension of the hidden states.", 256)
    layers: Layers = setting(32, "Number of blocks.", 6)
    heads: Size = setting(32, "Attention heads; they divide dim.", 8)
    kv_heads: Size | None = setting(
        None, "Heads of keys and values (grouped-query attention); none is as many as heads.", 2
    )
    head_dim: Size | None = setting(None, "Dimension of one head; none is dim / heads.", 64)
    ffn_dim: Size = setting(11008, "Inner dimension of the feed-forward layers.", 1024)
    rope_theta: Positive = setting(10000.0, "Base of the rotary frequencies; larger for longer contexts.", 500000.0)
    rope_scaling: RopeScaling | None = setting(
        None, "Stretches rotary positions to a longer context: a table.", {"kind": "linear", "factor": 2.0}
    )
    window: Size | None = setting(None, "Positions each token attends to (sliding window); none is all before it.", 256)
    qkv_bias: bool = setting(False, "Whether queries, keys and values have a bias, as in Qwen2.")
    output_bias: bool = setting(False, "Whether the output projection of attention has a bias.")
    feed_forward_bias: bool = setting(False, "Whether the feed-forward layers have a bias.")
    tie_embeddings: bool = setting(False, "Whether the output layer shares the embedding's weights.")
    head: Literal["lm", "classifier"] = setting("lm", "What the model returns: logits of next tokens, or of classes.")
    classes: Size = setting(2, "Number of classes of a classifier.", 5)
    eps: NotNegative = setting(1e-5, "Added to the mean square under a norm, against division by zero.", 1e-6)


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
