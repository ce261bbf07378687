"""The basic layers: linear, embedding, normalization and feed-forward."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from glassformer.equations.activations import gelu, gelu_tanh, quick_gelu, relu, sigmoid, silu, squared_relu, tanh
from glassformer.equations.algebra import add, linear
from glassformer.equations.embedding import embed
from glassformer.equations.heads import slice_axis
from glassformer.equations.normalization import layer_norm, rms_norm


class Linear(nn.Module):
    """A linear layer; the weight is stored as [inputs, outputs].

    `parts` are the output sizes of several matrices side by side in one weight, as in a fused `qkv`; empty for one.
    """

    parts: tuple[int, ...] = ()

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Project the last axis."""
        return linear(x, self.weight, self.bias)


class Embedding(nn.Module):
    """One learned vector for each token id."""

    def __init__(self, vocab: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab, dim))

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors [batch, seq, dim] of token ids [batch, seq]."""
        return embed(self.weight, ids)


class LearnedPositions(nn.Module):
    """One learned vector for each position, added to the embeddings."""

    def __init__(self, count: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, dim))

    def forward(self, x: Tensor, offset: int = 0, positions: Tensor | None = None) -> Tensor:
        """Add the vectors of these positions, or of 0, 1, 2 and so on, plus the offset."""
        if positions is None:
            return add(x, slice_axis(self.weight, 0, offset, offset + x.shape[-2]))
        # padding has negative positions, and logits beyond the last position are never read
        return add(x, embed(self.weight, (positions + offset).clamp(0, len(self.weight) - 1)))


class LayerNorm(nn.Module):
    """Layer normalization over the last axis, with a learned scale and bias."""

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the last axis."""
        return layer_norm(x, self.weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    """RMS normalization over the last axis, with a learned scale."""

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the last axis."""
        return rms_norm(x, self.weight, self.eps)


class PlainRMSNorm(nn.Module):
    """RMS normalization over the last axis, without learned parameters."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the last axis."""
        return rms_norm(x)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": sigmoid,
    "tanh": tanh,
    "relu": relu,
    "squared_relu": squared_relu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "quick_gelu": quick_gelu,
    "silu": silu,
}


class FeedForward(nn.Module):
    """Two linear layers with an activation between, applied at every position."""

    def __init__(self, dim: int, ffn_dim: int, activation: Callable[[Tensor], Tensor], bias: bool = True) -> None:
        super().__init__()
        self.up = Linear(dim, ffn_dim, bias)
        self.down = Linear(ffn_dim, dim, bias)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """Hidden states [batch, seq, dim] in and out."""
        return self.down(self.activation(self.up(x)))


class GatedFeedForward(nn.Module):
    """Three linear layers: one gates another, and the third projects back (SwiGLU, GEGLU)."""

    def __init__(self, dim: int, ffn_dim: int, unit: Callable[[Tensor, Tensor], Tensor], bias: bool = False) -> None:
        super().__init__()
        self.gate = Linear(dim, ffn_dim, bias)
        self.up = Linear(dim, ffn_dim, bias)
        self.down = Linear(ffn_dim, dim, bias)
        self.unit = unit

    def forward(self, x: Tensor) -> Tensor:
        """Hidden states [batch, seq, dim] in and out."""
        return self.down(self.unit(self.gate(x), self.up(x)))
