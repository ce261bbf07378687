"""The base of models that classify pictures."""

from abc import abstractmethod
from typing import Annotated

from msgspec import Meta
from torch import Tensor

from glassformer.layers.model import Model
from glassformer.layers.patches import check_pixels

Channels = Annotated[int, Meta(ge=1, le=4)]


class ImageClassifier(Model):
    """Pictures in, logits of classes out; its configuration has `image_size`, `channels`, `image_mean`, `image_std`."""

    @property
    @abstractmethod
    def positions(self) -> int:
        """Positions that it computes on for each picture, such as patches."""

    def check(self, pixel_values: Tensor) -> None:
        """Raise on pictures the model cannot take."""
        check_pixels(type(self).__name__, pixel_values, self.config.image_size, self.config.channels)
