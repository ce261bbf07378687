"""The check of pictures that a model reads."""

import torch
from torch import Tensor

from glassformer.errors import ModelError


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
