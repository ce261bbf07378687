"""The class of a picture, by a model that reads pictures."""

from collections.abc import Sequence

import torch

from glassformer.asking.classification import Classification, class_names, classifications
from glassformer.asking.picture_inputs import PictureInput, pixel_values, read_pixels
from glassformer.asking.reading import device_of
from glassformer.errors import ModelError
from glassformer.inference.prepare import inference_mode
from glassformer.layers.image_classifier import ImageClassifier

BATCH = 256  # pictures that a model reads at once, as in evaluation


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
