"""A matrix and a shift, learned."""

import torch
from torch import Tensor, nn

from glassformer.equations.algebra import linear


class Linear(nn.Module):
    """Rows times a learned matrix, plus a learned shift; weights are stored as [inputs, outputs].

    `parts` are the widths of several matrices side by side in one weight, as in a fused `qkv`; empty for one matrix.
    """

    parts: tuple[int, ...] = ()

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Map the last axis."""
        return linear(x, self.weight, self.bias)
