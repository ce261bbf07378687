"""The linear layer."""

import torch
from torch import Tensor, nn

from glassformer.equations.algebra import linear


class Linear(nn.Module):
    """A linear layer; the weight is stored as [inputs, outputs]."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Project the last axis."""
        return linear(x, self.weight, self.bias)
