"""Patches of pictures as tokens: their embedding."""

from torch import Tensor, nn

from glassformer.equations.patches import patchify
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
