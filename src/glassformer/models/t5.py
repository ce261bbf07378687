"""T5: text to text, with relative position biases and no other positions (Raffel et al., 2019)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.equations.activations import relu
from glassformer.equations.algebra import scale
from glassformer.equations.gated import geglu
from glassformer.equations.initialization import normal
from glassformer.equations.regularization import dropout
from glassformer.layers.basic import Embedding, FeedForward, GatedFeedForward, Linear, RMSNorm
from glassformer.layers.block import Attention, AttentionShape, Block, Causal, Stack
from glassformer.layers.config import Config, Layers, NotNegative, Probability, Size, setting
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.positions import RelativeBias


@dataclass(frozen=True, kw_only=True)
class T5Config(Config):
    """Sizes of a T5; `gated` without `tie_embeddings` is version 1.1."""

    vocab: Size = setting(32128, "Tokens in the vocabulary.")
    context: Size | None = setting(None, "Most tokens the model can read at once; none is no limit.", 256)
    dim: Size = setting(512, "Dimension of the hidden states.", 256)
    layers: Layers = setting(6, "Blocks of the encoder, and of the decoder unless decoder_layers says otherwise.", 4)
    decoder_layers: Layers | None = setting(None, "Blocks of the decoder; none is as many as the encoder.", 2)
    heads: Size = setting(8, "Attention heads.", 8)
    head_dim: Size = setting(64, "Dimension of one head.", 64)
    ffn_dim: Size = setting(2048, "Inner dimension of the feed-forward layers.", 1024)
    gated: bool = setting(False, "Whether the feed-forward layers are gated (GeGLU), as in version 1.1.")
    tie_embeddings: bool = setting(True, "Whether the output layer shares the embedding's weights.")
    buckets: Size = setting(32, "Buckets of relative positions.", 64)
    max_distance: Size = setting(128, "Distance from which relative positions share the last bucket.", 256)
    dropout: Probability = setting(0.0, "Dropout of embeddings, sublayers and attention weights.", 0.1)
    eps: NotNegative = setting(1e-6, "Added to the mean square under a norm, against division by zero.", 1e-5)


class T5(EncoderDecoder):
    """A source and a target so far in, logits for each next target token out."""

    config: T5Config

    def __init__(self, config: T5Config) -> None:
        super().__init__(config)
        self.embedding = Embedding(config.vocab, config.dim)
        self.encoder = self._stack(config.layers, decoder=False)
        writers = config.layers if config.decoder_layers is None else config.decoder_layers
        self.decoder = self._stack(writers, decoder=True)
        self.output: nn.Module | None = None if config.tie_embeddings else Linear(config.dim, config.vocab, bias=False)

    def _norm(self) -> RMSNorm:
        return RMSNorm(self.config.dim, self.config.eps)

    def _stack(self, layers: int, decoder: bool) -> Stack:
        config = self.config
        bias = RelativeBias(config.heads, config.buckets, config.max_distance, bidirectional=not decoder)
        return Stack([self._block(decoder) for _ in range(layers)], norm=self._norm(), bias=bias)

    def _block(self, decoder: bool) -> Block:
        config, dim, ffn_dim = self.config, self.config.dim, self.config.ffn_dim
        shape = AttentionShape.of(dim=dim, heads=config.heads, head_dim=config.head_dim, bias=False)
        return Block(
            Attention(shape, Causal() if decoder else None, scale=1.0),
            GatedFeedForward(dim, ffn_dim, geglu) if config.gated else FeedForward(dim, ffn_dim, relu, bias=False),
            norm=self._norm,
            cross_attention=Attention(shape, scale=1.0) if decoder else None,
            dropout=config.dropout,
        )

    def embed_source(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """Token embeddings; positions enter as a bias on the attention scores."""
        x = self.embedding(ids)
        return dropout(x, self.config.dropout) if self.training and self.config.dropout > 0 else x

    def unembed(self, x: Tensor) -> Tensor:
        """Logits; a tied embedding scales the hidden states first."""
        return super().unembed(scale(x, self.tied_output_scale) if self.output is None else x)

    @property
    def tied_output_scale(self) -> float:
        """One over the root of the dimension."""
        return self.config.dim**-0.5

    @torch.no_grad()
    def init_weights(self, generator: torch.Generator | None = None) -> None:
        """Draw fresh weights: scaled by fan-in; queries smaller, since T5 does not divide scores by sqrt(head_dim)."""
        for name, weight in self.named_parameters():
            if name == "embedding.weight":
                weight.copy_(normal(tuple(weight.shape), 1.0, generator))
            elif weight.dim() > 1:
                shrink = self.config.head_dim**-0.5 if name.endswith("query.weight") else 1.0
                weight.copy_(normal(tuple(weight.shape), shrink * weight.shape[0] ** -0.5, generator))
