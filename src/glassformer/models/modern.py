"""A decoder for fast training: QK norm, squared ReLU, logit soft cap, zero-initialized outputs; patterns by setting."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from glassformer.equations.activations import squared_relu
from glassformer.equations.attention import soft_cap
from glassformer.equations.initialization import normal
from glassformer.equations.regularization import dropout
from glassformer.layers.basic import Embedding, FeedForward, Linear, PlainRMSNorm
from glassformer.layers.block import Attention, AttentionShape, Bidirectional, Block, Causal, Stack
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.config import Config, Layers, Positive, Probability, Size
from glassformer.layers.positions import AlibiBias
from glassformer.layers.rotary import Rotary
from glassformer.layers.sparse_attention import BlockSparse, Dilated, SlidingWindow


@dataclass(frozen=True, kw_only=True)
class ModernConfig(Config):
    """Sizes of a modern decoder; `positions` and `attention` choose among the schemes of the literature.

    `window` is the number of positions of a sliding or dilated window, `dilation` their distance, `block_size` the
    length of a block of block-sparse attention.
    """

    vocab: Size = 32768
    context: Size = 1024
    dim: Size = 768
    layers: Layers = 12
    heads: Size = 6
    kv_heads: Size | None = None
    ffn_dim: Size | None = None
    positions: Literal["rotary", "alibi", "none"] = "rotary"
    rope_theta: Positive = 10000.0
    attention: Literal["causal", "sliding_window", "dilated", "block_sparse"] = "causal"
    window: Size = 256
    dilation: Size = 2
    block_size: Size = 64
    attention_softcap: Positive | None = None
    logit_softcap: Positive = 15.0
    dropout: Probability = 0.0


class Modern(CausalLM):
    """Token ids in, logits for each next token out."""

    config: ModernConfig

    def __init__(self, config: ModernConfig) -> None:
        super().__init__(config)
        self.embedding = Embedding(config.vocab, config.dim)
        self.norm = PlainRMSNorm()
        bias = AlibiBias(config.heads) if config.positions == "alibi" else None
        self.stack = Stack([self._block() for _ in range(config.layers)], norm=PlainRMSNorm(), bias=bias)
        self.output = Linear(config.dim, config.vocab, bias=False)

    @property
    def reads_past_context(self) -> bool:
        """With ALiBi, or with attention that looks back only so far."""
        return self.config.positions == "alibi" or self.config.attention in ("sliding_window", "dilated")

    def _block(self) -> Block:
        config = self.config
        shape = AttentionShape.of(dim=config.dim, heads=config.heads, kv_heads=config.kv_heads, bias=False)
        attention = Attention(
            shape,
            self._pattern(),
            Rotary(shape.head_dim, config.rope_theta) if config.positions == "rotary" else None,
            norms=(PlainRMSNorm(), PlainRMSNorm()),
            logit_softcap=config.attention_softcap,
            dropout=config.dropout,
        )
        return Block(
            attention,
            FeedForward(config.dim, config.ffn_dim or 4 * config.dim, squared_relu, bias=False),
            norm=PlainRMSNorm,
            dropout=config.dropout,
        )

    def _pattern(self) -> Bidirectional:
        config = self.config
        match config.attention:
            case "sliding_window":
                return SlidingWindow(window=config.window)
            case "dilated":
                return Dilated(window=config.window, dilation=config.dilation)
            case "block_sparse":
                return BlockSparse(block_size=config.block_size)
        return Causal()

    def embed(self, ids: Tensor, positions: Tensor | None) -> Tensor:
        """Normalized token embeddings."""
        x = self.norm(self.embedding(ids))
        return dropout(x, self.config.dropout) if self.training and self.config.dropout > 0 else x

    def unembed(self, x: Tensor) -> Tensor:
        """Logits, kept within plus and minus `logit_softcap`."""
        return soft_cap(super().unembed(x), self.config.logit_softcap)

    @torch.no_grad()
    def init_weights(self, generator: torch.Generator | None = None) -> None:
        """Draw fresh weights: projections scaled by fan-in, outputs of blocks and the model zero."""
        for name, weight in self.named_parameters():
            if name.endswith(("output.weight", "down.weight")):
                weight.zero_()
            else:
                std = 1.0 if name == "embedding.weight" else weight.shape[0] ** -0.5
                weight.copy_(normal(tuple(weight.shape), std, generator))
