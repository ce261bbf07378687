"""Position-wise feed-forward networks, plain and gated."""

from collections.abc import Callable

from torch import Tensor, nn

from glassformer.equations.activations import gelu, gelu_tanh, relu, sigmoid, silu, squared_relu, tanh
from glassformer.layers.linear import Linear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": sigmoid,
    "tanh": tanh,
    "relu": relu,
    "squared_relu": squared_relu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
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
