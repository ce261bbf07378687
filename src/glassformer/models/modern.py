"""A decoder for fast training: QK norm, squared ReLU, logit soft cap, zero-initialized outputs; patterns by setting."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from glassformer.equations.activations import squared_relu
from glassformer.equations.attention import soft_cap
from glassformer.equations.initialization import normal
from glassformer.equations.regularization import dropout
from glassformer.errors import ConfigError
from glassformer.layers.basic import Embedding, FeedForward, Linear, PlainRMSNorm
from glassformer.layers.block import Attention, AttentionShape, Bidirectional, Block, Causal, Stack
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.config import Config, Layers, Positive, Probability, Size, setting
from glassformer.layers.positions import AlibiBias
from glassformer.layers.rotary import Rotary
from glassformer.layers.sparse_attention import BlockSparse, Dilated, SlidingWindow


@dataclass(frozen=True, kw_only=True)
class ModernConfig(Config):
    """Sizes of a modern decoder; `positions` and `attention` choose among the schemes of the literature.

    `window` is the number of positions of a sliding or dilated window, `dilation` their distance, `block_size` the
    length of a block of block-sparse attention.
    """

    vocab: Size = setting(32768, "Tokens in the vocabulary.")
    context: Size = setting(1024, "Most tokens the model can read at once.", 256)
    dim: Size = setting(768, "Dimension of the hidden states.", 256)
    layers: Layers = setting(12, "Number of blocks.", 6)
    heads: Size = setting(6, "Attention heads; they divide dim.", 8)
    kv_heads: Size | None = setting(
        None, "Heads of keys and values (grouped-query attention); none is as many as heads.", 2
    )
    ffn_dim: Size | None = setting(None, "Inner dimension of the feed-forward layers; none is 4 × dim.", 1024)
    positions: Literal["rotary", "alibi", "none"] = setting("rotary", "How positions are encoded.")
    rope_theta: Positive = setting(10000.0, "Base of the rotary frequencies; larger for longer contexts.", 500000.0)
    attention: Literal["causal", "sliding_window", "dilated", "block_sparse"] = setting(
        "causal", "Which earlier positions a token attends to."
    )
    window: Size = setting(256, "Positions of a window; for attention sliding_window or dilated.", 128)
    dilation: Size = setting(2, "Distance between the positions of a window; for attention dilated.", 4)
    block_size: Size = setting(64, "Length of a block; for attention block_sparse.", 32)
    attention_softcap: Positive | None = setting(None, "Soft cap of attention scores; none is no cap.", 50.0)
    logit_softcap: Positive = setting(15.0, "Soft cap of the logits: they stay between plus and minus this.", 30.0)
    head: Literal["lm", "classifier"] = setting("lm", "What the model returns: logits of next tokens, or of classes.")
    classes: Size = setting(2, "Number of classes of a classifier.", 5)
    dropout: Probability = setting(0.0, "Dropout of embeddings, sublayers and attention weights.", 0.1)


# Settings that only some schemes use, with the setting that chooses the scheme, and the schemes.
USED_BY = {
    "rope_theta": ("positions", ("rotary",)),
    "window": ("attention", ("sliding_window", "dilated")),
    "dilation": ("attention", ("dilated",)),
    "block_size": ("attention", ("block_sparse",)),
}


def require_used(config: object) -> None:
    """Raise on a setting of a modern decoder that is not at its default, and does nothing in the schemes chosen."""
    for name, (chooser, schemes) in USED_BY.items() if isinstance(config, ModernConfig) else ():
        chosen, value = vars(config)[chooser], vars(config)[name]
        if chosen not in schemes and value != vars(ModernConfig)[name]:
            where = f"which {chooser}={chosen} does not use"
            raise ConfigError(f"{name} is {value}, {where}: leave it out, or set {chooser}={schemes[0]}")


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
