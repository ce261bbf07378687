"""A picture as a model reads it: from a file, an array or a tensor."""

from pathlib import Path
from typing import TypeAlias

import numpy as np
from torch import Tensor

from glassformer.data.image_arrays import labeled_arrays, picture_bytes
from glassformer.data.image_batches import normalize_pixels
from glassformer.data.images import Pixels, fitted, read_image
from glassformer.errors import DataError, ModelError
from glassformer.layers.model import Model

# A path; uint8, or floats from 0 to 1, [height, width] or [height, width, channels]; or normalized pixel values.
PictureInput: TypeAlias = str | Path | np.ndarray | Tensor


def read_pixels(model: Model, picture: PictureInput) -> Pixels | Tensor:
    """The pixels of an image file or an array in the model's size; a tensor of pixel values stays as it is."""
    size, channels = model.config.image_size, model.config.channels
    if isinstance(picture, str | Path):
        return read_image(picture, size, channels)
    if isinstance(picture, Tensor):
        return picture
    if not isinstance(picture, np.ndarray):
        wanted = "the path of an image file, an array of pixels or a tensor of normalized pixel values"
        raise ModelError(f"a picture is of the type {type(picture).__name__}, wanted {wanted}")
    try:
        return fitted(labeled_arrays("the picture", picture_bytes(picture)[None], [""]), size, channels).pixels[0]
    except DataError as error:
        raise ModelError(str(error)) from None


def pixel_values(model: Model, pixels: Pixels | Tensor) -> Tensor:
    """What the model reads for a picture, [1, channels, height, width]."""
    if isinstance(pixels, Tensor):
        found = pixels if pixels.dim() == 4 else pixels[None]
    else:
        values = vars(model.config)  # an autoencoder reads fractions of the brightest as they are
        found = normalize_pixels(pixels[None], values.get("image_mean", (0.0,)), values.get("image_std", (1.0,)))
    like = next(model.parameters())
    return found.to(like.device, like.dtype)
