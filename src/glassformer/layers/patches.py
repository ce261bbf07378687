"""Patches of pictures as tokens: their embedding, and positions in two dimensions."""

from torch import Tensor, nn

from glassformer.equations.algebra import add
from glassformer.equations.patches import patchify, sinusoidal_positions_2d
from glassformer.errors import ConfigError
from glassformer.layers.basic import Linear


class PatchEmbedding(nn.Module):
    """Pictures to one vector for each patch: its pixels through one linear layer.

    It computes what a convolution does whose kernel and stride are a patch.
    """

    def __init__(self, image_size: int, patch_size: int, channels: int, dim: int, bias: bool = True) -> None:
        super().__init__()
        if image_size % patch_size:
            raise ConfigError(f"patch_size is {patch_size}, which does not divide image_size {image_size}")
        self.patch_size, self.side = patch_size, image_size // patch_size
        self.projection = Linear(channels * patch_size**2, dim, bias)

    @property
    def patches(self) -> int:
        """Patches of a picture."""
        return self.side**2

    def forward(self, pixel_values: Tensor) -> Tensor:
        """Vectors [batch, patches, dim] of pictures [batch, channels, height, width]."""
        return self.projection(patchify(pixel_values, self.patch_size))


class SinusoidalPositions2D(nn.Module):
    """Sines and cosines of the row and the column of each patch, added to its vector; nothing is learned."""

    def __init__(self, side: int, dim: int) -> None:
        super().__init__()
        if dim % 4:
            raise ConfigError(f"dim is {dim}, wanted a multiple of 4 for sinusoidal positions in two dimensions")
        self.side = side

    def forward(self, x: Tensor) -> Tensor:
        """Add the encodings to vectors [batch, patches, dim]."""
        return add(x, sinusoidal_positions_2d(self.side, self.side, x.shape[-1], dtype=x.dtype, device=x.device))
