"""The base of models that classify pictures."""

from abc import abstractmethod
from typing import TypeAlias

from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.layers.config import Config, NotNegative, Positive
from glassformer.layers.model import Model
from glassformer.layers.pixels import check_pixels

ChannelMeans: TypeAlias = tuple[NotNegative, ...]  # one number for each channel
ChannelDeviations: TypeAlias = tuple[Positive, ...]


def require_channels(config: Config) -> None:
    """Raise unless the mean and the deviation of pixels have a number for each channel."""
    for name in ("image_mean", "image_std"):
        values = vars(config)[name]
        if len(values) != vars(config)["channels"]:
            raise ConfigError(f"{name} has {len(values)} numbers, wanted one for each of the channels")


class ImageClassifier(Model):
    """Pictures in, logits of classes out.

    Its configuration has the `image_size` and `channels` that it reads, the `image_mean` and `image_std` that pixels
    are normalized by, and its `classes`.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        require_channels(config)

    @property
    @abstractmethod
    def sequence_length(self) -> int:
        """Positions that it computes on for each picture, such as patches."""

    def check_pictures(self, pixel_values: Tensor) -> None:
        """Raise on pictures of another size, or with other channels."""
        check_pixels(type(self).__name__, pixel_values, self.config.image_size, self.config.channels)
