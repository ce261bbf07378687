"""BERT: an encoder alone, norms after the sublayers (Devlin et al., 2018), with the heads that use it."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from glassformer.equations.algebra import add
from glassformer.equations.embedding import unembed
from glassformer.equations.masks import padding_mask
from glassformer.equations.regularization import dropout
from glassformer.equations.sequences import mean_pool, select_position
from glassformer.equations.similarity import normalize
from glassformer.equations.spans import span_logits
from glassformer.equations.variance_scaling import truncated_normal
from glassformer.layers.basic import ACTIVATIONS, Embedding, FeedForward, LayerNorm, LearnedPositions, Linear
from glassformer.layers.block import Attention, AttentionShape, Block, Stack
from glassformer.layers.config import Config, Count, Layers, NotNegative, Probability, Size, setting
from glassformer.layers.model import Model, checks_inputs


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(Config):
    """Sizes of a BERT; `head` chooses the output.

    `share_layers` and a narrower `embedding_dim` make it an ALBERT, a `position_offset` a RoBERTa, no token types
    and a ReLU to `pool` by a DistilBERT.
    """

    vocab: Size = setting(30522, "Tokens in the vocabulary.")
    context: Size = setting(512, "Most tokens the model can read at once.", 256)
    dim: Size = setting(768, "Dimension of the hidden states.", 256)
    layers: Layers = setting(12, "Number of blocks.", 6)
    heads: Size = setting(12, "Attention heads; they divide dim.", 8)
    ffn_dim: Size = setting(3072, "Inner dimension of the feed-forward layers.", 1024)
    token_types: Count = setting(2, "Token types (segments), each with an embedding; 0 is none.", 1)
    embedding_dim: Size | None = setting(
        None, "Dimension of the token embeddings if smaller than dim, as in ALBERT; none is dim.", 64
    )
    position_offset: Count = setting(0, "Position number of the first token.", 2)
    activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = setting("gelu", "Activation of the feed-forward layers.")
    share_layers: bool = setting(False, "Whether all blocks share their weights, as in ALBERT.")
    head: Literal["hidden", "pooled", "sentence", "masked", "classifier", "span"] = setting(
        "hidden", "What the model returns."
    )
    pool: Literal["tanh", "relu"] = setting("tanh", "Activation of the pooled first token.")
    classes: Size = setting(2, "Number of classes of a classifier.", 5)
    dropout: Probability = setting(0.0, "Dropout of embeddings, sublayers and attention weights.", 0.1)
    eps: NotNegative = setting(1e-12, "Added to the variance under a norm, against division by zero.", 1e-6)


class MaskedHead(nn.Module):
    """Logits for the token that was masked, by the tied embedding."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.embedding_dim or config.dim
        self.transform = Linear(config.dim, width)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = LayerNorm(width, config.eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab))

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        """Logits [batch, seq, vocab]."""
        return add(unembed(self.norm(self.activation(self.transform(x))), embedding), self.bias)


class Encoder(Model):
    """Token ids in; hidden states, a sentence vector, or logits for masked tokens, for classes or for a span out."""

    config: EncoderConfig

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        width = config.embedding_dim or config.dim
        self.embedding = Embedding(config.vocab, width)
        self.token_types = Embedding(config.token_types, width) if config.token_types else None
        self.positions = LearnedPositions(config.position_offset + config.context, width)
        self.norm = LayerNorm(width, config.eps)
        self.widen = Linear(width, config.dim) if config.embedding_dim else None
        shared = self._block() if config.share_layers else None
        self.stack = Stack([shared or self._block() for _ in range(config.layers)])
        self.pooler = Linear(config.dim, config.dim) if config.head in ("pooled", "classifier") else None
        self.masked_head = MaskedHead(config) if config.head == "masked" else None
        self.classifier = Linear(config.dim, config.classes) if config.head == "classifier" else None
        self.span_head = Linear(config.dim, 2) if config.head == "span" else None

    def _norm(self) -> LayerNorm:
        return LayerNorm(self.config.dim, self.config.eps)

    def _block(self) -> Block:
        config = self.config
        return Block(
            Attention(AttentionShape.of(dim=config.dim, heads=config.heads), dropout=config.dropout),
            FeedForward(config.dim, config.ffn_dim, ACTIVATIONS[config.activation]),
            norm=self._norm,
            norm_first=False,
            dropout=config.dropout,
        )

    def check(self, ids: Tensor, attention_mask: Tensor | None = None, token_types: Tensor | None = None) -> None:
        """Raise on tokens the model cannot take."""
        self.check_tokens("ids", ids, self.config.vocab, self.config.context)
        self.check_mask(attention_mask, ids)
        if token_types is not None:
            self.check_tokens(
                "token_types", token_types, max(self.config.token_types, 1)
            )  # zeros, where there are none

    def hidden_states(
        self, ids: Tensor, attention_mask: Tensor | None = None, token_types: Tensor | None = None
    ) -> Tensor:
        """Hidden states [batch, seq, dim] after the last block, which the head reads."""
        x = self.embedding(ids)
        if self.token_types is not None:
            x = add(x, self.token_types(torch.zeros_like(ids) if token_types is None else token_types))
        x = self.norm(self.positions(x, self.config.position_offset))
        if self.training and self.config.dropout > 0:
            x = dropout(x, self.config.dropout)
        x = x if self.widen is None else self.widen(x)
        return self.stack(x, None if attention_mask is None else padding_mask(attention_mask, dtype=x.dtype))

    @checks_inputs(check)
    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, token_types: Tensor | None = None) -> Tensor:
        """What the head returns; `attention_mask` is false for padding, `token_types` says first or second text."""
        x = self.hidden_states(ids, attention_mask, token_types)
        if self.masked_head is not None:
            return self.masked_head(x, self.embedding.weight)
        if self.span_head is not None:
            return span_logits(self.span_head(x), attention_mask)
        if self.config.head == "sentence":
            return normalize(mean_pool(x, attention_mask))
        if self.pooler is None:
            return x
        first = ACTIVATIONS[self.config.pool](self.pooler(select_position(x, 0)))
        return first if self.classifier is None else self.classifier(first)

    @torch.no_grad()
    def init_weights(self, generator: torch.Generator | None = None) -> None:
        """Draw fresh weights: normal with std 0.02, truncated at two deviations."""
        for weight in self.parameters():
            if weight.dim() > 1:
                weight.copy_(truncated_normal(tuple(weight.shape), 0.02, generator=generator))
