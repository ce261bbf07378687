"""CLIP: an image tower and a text tower that put a picture and its caption in one place (Radford et al., 2021)."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from glassformer.equations.contrastive import contrastive_logits, logit_scale
from glassformer.equations.initialization import normal, scaled_normal
from glassformer.equations.masks import padding_mask
from glassformer.equations.patches import prepend_token
from glassformer.equations.regularization import dropout
from glassformer.equations.sequences import select_each, select_position
from glassformer.equations.similarity import normalize
from glassformer.layers.basic import ACTIVATIONS, Embedding, FeedForward, LayerNorm, LearnedPositions, Linear
from glassformer.layers.block import Attention, AttentionShape, Bidirectional, Block, Causal, Stack
from glassformer.layers.config import Config, Count, Layers, NotNegative, Probability, Size, setting
from glassformer.layers.image_classifier import ChannelDeviations, ChannelMeans, require_channels
from glassformer.layers.model import Model, checks_inputs
from glassformer.layers.patches import PatchEmbedding
from glassformer.layers.pixels import check_pixels

FIRST_TEMPERATURE = 0.07  # of the paper
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)  # of red, green and blue in the pictures that CLIP was trained on
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
RESIDUAL = (".output.weight", ".down.weight")  # matrices that write into the residual stream


@dataclass(frozen=True, kw_only=True)
class CLIPConfig(Config):
    """Sizes of a CLIP: those of its image tower, of its text tower, and of the embeddings that both end in."""

    vocab: Size = setting(49408, "Tokens in the vocabulary.")
    context: Size = setting(77, "Most tokens of a caption.", 32)
    text_dim: Size = setting(512, "Dimension of the hidden states of the text tower.", 256)
    text_layers: Layers = setting(12, "Number of blocks of the text tower.", 4)
    text_heads: Size = setting(8, "Attention heads of the text tower; they divide text_dim.", 4)
    text_ffn_dim: Size = setting(2048, "Inner dimension of the feed-forward layers of the text tower.", 1024)
    image_size: Size = setting(224, "Height and width of a picture, in pixels.", 32)
    patch_size: Size = setting(32, "Height and width of a patch, in pixels; it divides image_size.", 8)
    channels: Size = setting(3, "Channels of a picture: 3 for color, 1 for gray.", 1)
    image_mean: ChannelMeans = setting(CLIP_MEAN, "Mean of each channel, which is subtracted.", (0.5, 0.5, 0.5))
    image_std: ChannelDeviations = setting(CLIP_STD, "Deviation of each channel, by which it is divided.", (0.5,))
    image_dim: Size = setting(768, "Dimension of the hidden states of the image tower.", 256)
    image_layers: Layers = setting(12, "Number of blocks of the image tower.", 6)
    image_heads: Size = setting(12, "Attention heads of the image tower; they divide image_dim.", 8)
    image_ffn_dim: Size = setting(3072, "Inner dimension of the feed-forward layers of the image tower.", 1024)
    embedding_dim: Size = setting(512, "Dimension of the embeddings of pictures and texts.", 128)
    activation: Literal["quick_gelu", "gelu", "gelu_tanh", "relu", "silu"] = setting(
        "quick_gelu", "Activation of the feed-forward layers.", "gelu"
    )
    eos: Count | None = setting(
        None, "Token whose hidden state is that of the text; none is the highest id in it, as in the first CLIP.", 1
    )
    dropout: Probability = setting(0.0, "Dropout of embeddings, sublayers and attention weights.", 0.1)
    eps: NotNegative = setting(1e-5, "Added to the variance under a norm, against division by zero.", 1e-6)


class CLIP(Model):
    """Pictures and captions in, the logits of every pair out."""

    config: CLIPConfig

    def __init__(self, config: CLIPConfig) -> None:
        super().__init__(config)
        require_channels(config)
        self.patches = PatchEmbedding(
            config.image_size, config.patch_size, config.channels, config.image_dim, bias=False
        )
        self.class_token = nn.Parameter(torch.empty(config.image_dim))
        self.image_positions = LearnedPositions(1 + self.patches.patches, config.image_dim)
        self.image_norm = LayerNorm(config.image_dim, config.eps)
        shape = AttentionShape.of(dim=config.image_dim, heads=config.image_heads)
        blocks = [self._block(shape, config.image_ffn_dim, Bidirectional()) for _ in range(config.image_layers)]
        self.image_stack = Stack(blocks)
        self.class_norm = LayerNorm(config.image_dim, config.eps)
        self.image_projection = Linear(config.image_dim, config.embedding_dim, bias=False)
        self.embedding = Embedding(config.vocab, config.text_dim)
        self.positions = LearnedPositions(config.context, config.text_dim)
        shape = AttentionShape.of(dim=config.text_dim, heads=config.text_heads)
        blocks = [self._block(shape, config.text_ffn_dim, Causal()) for _ in range(config.text_layers)]
        self.text_stack = Stack(blocks, LayerNorm(config.text_dim, config.eps))
        self.text_projection = Linear(config.text_dim, config.embedding_dim, bias=False)
        self.log_scale = nn.Parameter(torch.empty(1))

    def _block(self, shape: AttentionShape, ffn_dim: int, pattern: Bidirectional) -> Block:
        config = self.config
        return Block(
            Attention(shape, pattern, dropout=config.dropout),
            FeedForward(shape.dim, ffn_dim, ACTIVATIONS[config.activation]),
            norm=lambda: LayerNorm(shape.dim, config.eps),
            dropout=config.dropout,
        )

    def check(self, pixel_values: Tensor, ids: Tensor, attention_mask: Tensor | None = None) -> None:
        """Raise on pictures or tokens the model cannot take."""
        self.check_image(pixel_values)
        self.check_text(ids, attention_mask)

    def check_image(self, pixel_values: Tensor) -> None:
        """Raise on pictures the model cannot take."""
        check_pixels(type(self).__name__, pixel_values, self.config.image_size, self.config.channels)

    def check_text(self, ids: Tensor, attention_mask: Tensor | None = None) -> None:
        """Raise on tokens the model cannot take."""
        self.check_tokens("ids", ids, self.config.vocab, self.config.context)
        self.check_mask(attention_mask, ids)

    @checks_inputs(check_image)
    def encode_image(self, pixel_values: Tensor) -> Tensor:
        """Embeddings [batch, embedding_dim] of pictures, of length one."""
        x = self.image_positions(prepend_token(self.class_token, self.patches(pixel_values)))
        x = self.image_stack(self.image_norm(self._drop(x)))
        return normalize(self.image_projection(self.class_norm(select_position(x, 0))))

    @checks_inputs(check_text)
    def encode_text(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Embeddings [batch, embedding_dim] of texts, of length one: each is read at its EOS token."""
        x = self._drop(self.positions(self.embedding(ids)))
        x = self.text_stack(x, None if attention_mask is None else padding_mask(attention_mask, dtype=x.dtype))
        return normalize(self.text_projection(select_each(x, self._ends(ids, attention_mask))))

    def _ends(self, ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """The position of the first EOS of each text, or of its last token if it has none."""
        if self.config.eos is None:
            return ids.argmax(-1)
        real = torch.ones_like(ids, dtype=torch.bool) if attention_mask is None else attention_mask
        ends = (ids == self.config.eos) & real
        return torch.where(ends.any(-1), ends.int().argmax(-1), real.sum(-1).clamp_min(1) - 1)

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.config.dropout) if self.training and self.config.dropout > 0 else x

    def logits(self, image: Tensor, text: Tensor) -> Tensor:
        """Logits [images, texts] from embeddings of pictures and texts."""
        return contrastive_logits(image, text, logit_scale(self.log_scale))

    @checks_inputs(check)
    def forward(self, pixel_values: Tensor, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Logits [images, texts] of every pair; `attention_mask` is false for padding."""
        return self.logits(self.encode_image(pixel_values), self.encode_text(ids, attention_mask))

    @torch.no_grad()
    def init_weights(self, generator: torch.Generator | None = None) -> None:
        """Draw fresh weights: tables with std 0.02, matrices by their inputs, smaller where they add to residuals."""
        for name, weight in self.named_parameters():
            shape = tuple(weight.shape)
            if name == "log_scale":
                weight.fill_(-math.log(FIRST_TEMPERATURE))
            elif "embedding" in name or "positions" in name or "class_token" in name:
                weight.copy_(normal(shape, 0.02, generator))
            elif weight.dim() > 1 and name.endswith(RESIDUAL):
                layers = self.config.image_layers if name.startswith("image") else self.config.text_layers
                weight.copy_(scaled_normal(shape, shape[0] ** -0.5, layers, generator))
            elif weight.dim() > 1:
                weight.copy_(normal(shape, shape[0] ** -0.5, generator))
