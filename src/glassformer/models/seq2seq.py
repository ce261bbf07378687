"""The Transformer of "Attention is all you need" (Vaswani et al., 2017): an encoder reads, a decoder writes."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from glassformer.equations.algebra import add
from glassformer.equations.embedding import scale_embedding
from glassformer.equations.initialization import normal
from glassformer.equations.positions import sinusoidal_positions
from glassformer.equations.regularization import dropout
from glassformer.equations.variance_scaling import xavier_uniform
from glassformer.layers.basic import ACTIVATIONS, Embedding, FeedForward, LayerNorm, LearnedPositions
from glassformer.layers.block import Attention, AttentionShape, Block, Causal, Stack
from glassformer.layers.config import Config, Count, Layers, NotNegative, Probability, Size, setting, sizes_allowed
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.positions import SinusoidalPositions


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(Config):
    """Sizes of a translator; one vocabulary and one embedding serve both languages and the output."""

    vocab: Size = setting(37000, "Tokens in the vocabulary.")
    context: Size = setting(512, "Most tokens the model can read at once.", 256)
    dim: Size = setting(512, "Dimension of the hidden states.", 256)
    layers: Layers = setting(6, "Blocks of the encoder, and of the decoder unless decoder_layers says otherwise.", 4)
    decoder_layers: Layers | None = setting(None, "Blocks of the decoder; none is as many as the encoder.", 2)
    heads: Size = setting(8, "Attention heads; they divide dim.", 8)
    ffn_dim: Size = setting(2048, "Inner dimension of the feed-forward layers.", 1024)
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = setting("relu", "Activation of the feed-forward layers.")
    norm_first: bool = setting(
        False, "Whether norms come before the sublayers (pre-norm) or after them (post-norm, as in 2017)."
    )
    positions: Literal["adjacent", "halves", "learned"] = setting(
        "adjacent", "Layout of the position encoding: sines and cosines in turn or in halves, or learned."
    )
    position_offset: Count = setting(0, "Position number of the first token.", 2)
    scale_embeddings: bool = setting(True, "Whether embeddings are multiplied by the square root of dim.")
    embedding_norm: bool = setting(False, "Whether embeddings pass through a norm, as in BART.")
    output_bias: bool = setting(False, "Whether the output layer has a bias, as in Marian.")
    dropout: Probability = setting(0.0, "Dropout of embeddings and sublayers.", 0.1)
    attention_dropout: Probability = setting(0.0, "Dropout of attention weights.", 0.1)
    eps: NotNegative = setting(1e-5, "Added to the variance under a norm, against division by zero.", 1e-6)


class Seq2Seq(EncoderDecoder):
    """A source and a target so far in, logits for each next target token out."""

    config: Seq2SeqConfig

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__(config)
        self.embedding = Embedding(config.vocab, config.dim)
        self.source_start, self.target_start = (self._start() for _ in range(2))
        final = self._norm if config.norm_first else lambda: None
        self.encoder = Stack([self._block() for _ in range(config.layers)], norm=final())
        writers = config.layers if config.decoder_layers is None else config.decoder_layers
        self.decoder = Stack([self._block(decoder=True) for _ in range(writers)], norm=final())
        self.output: nn.Module | None = None  # set by `for_inference` to a converted copy of the embedding
        self.output_bias = nn.Parameter(torch.zeros(config.vocab)) if config.output_bias else None

    def _norm(self) -> LayerNorm:
        return LayerNorm(self.config.dim, self.config.eps)

    def _start(self) -> nn.Sequential:
        """The layers before the first block: positions, and in some families a norm."""
        config = self.config
        if config.positions == "learned":
            positions = LearnedPositions(config.position_offset + config.context, config.dim)
        else:
            with sizes_allowed():
                sinusoidal_positions(0, config.dim, layout=config.positions)
            positions = SinusoidalPositions(config.positions)
        return nn.Sequential(positions, self._norm()) if config.embedding_norm else nn.Sequential(positions)

    def _block(self, decoder: bool = False) -> Block:
        config = self.config
        shape = AttentionShape.of(dim=config.dim, heads=config.heads)
        return Block(
            Attention(shape, Causal() if decoder else None, dropout=config.attention_dropout),
            FeedForward(config.dim, config.ffn_dim, ACTIVATIONS[config.activation]),
            norm=self._norm,
            cross_attention=Attention(shape, dropout=config.attention_dropout) if decoder else None,
            norm_first=config.norm_first,
            dropout=config.dropout,
        )

    def embed_source(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """Token embeddings plus positions."""
        return self._embed(ids, self.source_start, positions)

    def embed_target(self, ids: Tensor, positions: Tensor | None) -> Tensor:
        """The same for the decoder."""
        return self._embed(ids, self.target_start, positions)

    def unembed(self, x: Tensor) -> Tensor:
        """Logits, plus a bias where the family has one."""
        logits = super().unembed(x)
        return logits if self.output_bias is None else add(logits, self.output_bias)

    def output_weights(self) -> tuple[Tensor, Tensor | None] | None:
        """The embedding and the bias, unless the output is a converted copy of them."""
        return (self.embedding.weight, self.output_bias) if self.output is None else None

    def _embed(self, ids: Tensor, start: nn.Sequential, positions: Tensor | None) -> Tensor:
        x = self.embedding(ids)
        add_positions, *norm = start
        x = scale_embedding(x) if self.config.scale_embeddings else x
        x = add_positions(x, self.config.position_offset, positions)
        x = norm[0](x) if norm else x
        return dropout(x, self.config.dropout) if self.training and self.config.dropout > 0 else x

    @torch.no_grad()
    def init_weights(self, generator: torch.Generator | None = None) -> None:
        """Draw fresh weights: Xavier for matrices, normal with std 1/sqrt(dim) for embeddings."""
        for name, weight in self.named_parameters():
            if weight.dim() > 1 and ("embedding" in name or "_start" in name):
                weight.copy_(normal(tuple(weight.shape), self.config.dim**-0.5, generator))
            elif weight.dim() > 1:
                weight.copy_(xavier_uniform(*weight.shape, generator=generator))
