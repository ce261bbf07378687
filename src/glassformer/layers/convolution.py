"""Layers of pictures: convolution, group normalization, and a residual block of both."""

import torch
from torch import Tensor, nn

from glassformer.equations.activations import silu
from glassformer.equations.algebra import residual
from glassformer.equations.convolution import conv2d
from glassformer.equations.other_norms import group_norm
from glassformer.errors import ConfigError


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


class GroupNorm(nn.Module):
    """Normalization of groups of channels over a whole picture, with a learned scale and bias for each channel."""

    def __init__(self, channels: int, groups: int, eps: float = 1e-5) -> None:
        super().__init__()
        if channels % groups:
            raise ConfigError(f"groups is {groups}, which does not divide the {channels} channels")
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.groups, self.eps = groups, eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalize feature maps [batch, channels, height, width]."""
        return group_norm(x, self.weight, self.bias, self.groups, self.eps)


class ResidualConvolutions(nn.Module):
    """Two convolutions after norms and activations, added to the feature maps they read (He et al., 2016)."""

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = GroupNorm(channels, groups), GroupNorm(channels, groups)
        self.conv1, self.conv2 = (Conv2d(channels, channels, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """Feature maps [batch, channels, height, width] in and out."""
        return residual(x, self.conv2(silu(self.norm2(self.conv1(silu(self.norm1(x)))))))
