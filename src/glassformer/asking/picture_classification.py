"""The class of a picture, by a model that reads pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from glassformer.asking.classification import Classification, class_names, classifications
from glassformer.asking.reading import device_of
from glassformer.data.image_arrays import labeled_arrays
from glassformer.data.image_batches import normalize_pixels
from glassformer.data.images import Pixels, fitted, read_image
from glassformer.errors import DataError, ModelError
from glassformer.inference.prepare import inference_mode
from glassformer.layers.image_classifier import ImageClassifier

# A path, bytes [height, width] or [height, width, channels], or normalized pixel values.
PictureInput: TypeAlias = str | Path | np.ndarray | Tensor
BATCH = 256  # pictures that a model reads at once, as in evaluation


def read_pixels(model: ImageClassifier, picture: PictureInput) -> Pixels | Tensor:
    """The pixels of an image file or an array in the model's size; a tensor of pixel values stays as it is."""
    size, channels = model.config.image_size, model.config.channels
    if isinstance(picture, str | Path):
        return read_image(picture, size, channels)
    if isinstance(picture, Tensor):
        return picture
    if not isinstance(picture, np.ndarray):
        wanted = "the path of an image file, an array of bytes or a tensor of pixel values"
        raise ModelError(f"a picture is of the type {type(picture).__name__}, wanted {wanted}")
    try:
        return fitted(labeled_arrays("the picture", picture[None], [""]), size, channels).pixels[0]
    except DataError as error:
        raise ModelError(str(error)) from None


def pixel_values(model: ImageClassifier, pixels: Pixels | Tensor) -> Tensor:
    """What the model reads for a picture, [1, channels, height, width]."""
    if isinstance(pixels, Tensor):
        found = pixels if pixels.dim() == 4 else pixels[None]
    else:
        found = normalize_pixels(pixels[None], model.config.image_mean, model.config.image_std)
    like = next(model.parameters())
    return found.to(like.device, like.dtype)


def classify_images(
    model: ImageClassifier,
    labels: Sequence[str] | None,
    pictures: Sequence[PictureInput],
    name: str,
) -> list[Classification]:
    """The label of each picture and the probabilities of all labels; `name` is the model's, for errors."""
    if model.config.head != "classifier":
        raise ModelError(f"head is {model.config.head}, wanted classifier to classify")
    names = class_names(labels, model.config.classes, name)
    found: list[Classification] = []
    for first in range(0, len(pictures), BATCH):
        batch = torch.cat([pixel_values(model, read_pixels(model, each)) for each in pictures[first : first + BATCH]])
        model.check(batch.to(device_of(model)))
        with inference_mode(model):
            found += classifications(model(batch), names)
    return found
