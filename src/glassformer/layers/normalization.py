"""Layer norm and RMS norm."""

import torch
from torch import Tensor, nn

from glassformer.equations.normalization import layer_norm, rms_norm


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

    def __init__(self, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the last axis."""
        return rms_norm(x, None, self.eps)
