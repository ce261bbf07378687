"""A convolution layer: learned filters slid over pictures."""

import torch
from torch import Tensor, nn

from glassformer.equations.convolution import conv2d


class Conv2d(nn.Module):
    """A convolution with square filters; the weight is stored as [outputs, channels, kernel, kernel]."""

    def __init__(
        self, channels: int, outputs: int, kernel: int, stride: int = 1, padding: int = 0, bias: bool = True
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, channels, kernel, kernel))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None
        self.stride, self.padding = stride, padding

    def forward(self, x: Tensor) -> Tensor:
        """Pictures [batch, channels, height, width] in, feature maps [batch, outputs, height, width] out."""
        return conv2d(x, self.weight, self.bias, self.stride, self.padding)
