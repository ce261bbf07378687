"""Patches of pictures as tokens: their embedding, and a check of pixel values."""

import torch
from torch import Tensor, nn

from glassformer.equations.patches import patchify
from glassformer.errors import ConfigError, ModelError
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


def check_pixels(name: str, pixel_values: Tensor, image_size: int, channels: int) -> None:
    """Raise unless these are finite pictures [batch, channels, height, width] of a model's size."""
    where = f"{name}: pixel_values"
    if not pixel_values.is_floating_point():
        raise ModelError(f"{where} has type {pixel_values.dtype}, wanted normalized pixels of type float32")
    wanted = (channels, image_size, image_size)
    if pixel_values.dim() != 4 or tuple(pixel_values.shape[1:]) != wanted:
        raise ModelError(f"{where} has shape {list(pixel_values.shape)}, wanted [batch, {', '.join(map(str, wanted))}]")
    if not pixel_values.is_meta and not bool(torch.isfinite(pixel_values).all()):
        raise ModelError(f"{where} holds values that are not finite")
