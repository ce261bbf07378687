"""Batches of labeled pictures, with augmentation that depends only on the seed, the epoch and the batch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from glassformer.data.batches import WEIGHTS, Batch, Batches, Plan, Rows, generator, require_rows
from glassformer.errors import DataError

PIXEL_VALUES = "pixel_values"
SAMPLED = 1024  # pictures in the checksum of the data
ERASED = (0.02, 0.33)  # least and most of a picture's area that is erased
UNIFORM = 0.01  # a smaller deviation of pixels is not divided by
Scale = tuple[Sequence[float], Sequence[float]]  # mean and deviation of each channel
AUGMENTATION = 1  # key of the generator, beside those of the order


@dataclass(frozen=True)
class Augmentation:
    """Random changes of training pictures.

    Pictures are moved by up to `shift` pixels, mirrored where `flip` is set, and erased in a rectangle with the
    probability `erase`. With the probability `cutmix` a rectangle of every picture of a batch comes from another one
    (Yun et al., 2019), else with `mixup` all are mixed with others (Zhang et al., 2018); so are their labels.
    """

    shift: int = 0
    flip: bool = False
    erase: float = 0.0
    cutmix: float = 0.0
    mixup: float = 0.0

    @property
    def mixes(self) -> bool:
        """Whether pictures are mixed with others, so that each may have two labels."""
        return self.cutmix + self.mixup > 0


def channel_statistics(pixels: UInt8[np.ndarray, "count height width channels"]) -> Scale:
    """Mean and deviation of each channel, as fractions of the brightest, from a sample of the pictures."""
    sample = pixels[:: max(1, len(pixels) // SAMPLED)].astype(np.float64) / 255
    mean, deviation = sample.mean((0, 1, 2)), sample.std((0, 1, 2))
    return mean.round(4).tolist(), np.where(deviation > UNIFORM, deviation, 1.0).round(4).tolist()


def normalize_pixels(
    pixels: UInt8[np.ndarray, "count height width channels"], mean: Sequence[float], std: Sequence[float]
) -> Float[Tensor, "count channels height width"]:
    """Pictures as a model reads them: fractions of the brightest, minus the mean of the channel, by its deviation."""
    moved = torch.from_numpy(np.array(pixels.transpose(0, 3, 1, 2), order="C"))
    return _normalized(moved, mean, std)


def _normalized(moved: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    middle, scale = (torch.tensor(each, device="cpu")[:, None, None] for each in (mean, std))
    return (moved.float() / 255).sub_(middle).div_(scale)


class ImageBatches(Batches):
    """Pictures with their labels: `pixel_values` [batch, channels, height, width] and `labels`.

    Where pictures are mixed, `labels` are [batch, 2] in every training batch, and `weights` say how much each counts.
    """

    def __init__(
        self,
        pixels: UInt8[np.ndarray, "count height width channels"],
        labels: Sequence[int],
        batch: int,
        scale: Scale,
        augmentation: Augmentation,
        seed: int,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        super().__init__(seed, rank, world)
        if len(pixels) != len(labels):
            raise DataError(f"{len(pixels)} pictures and {len(labels)} labels, wanted the same number")
        self.pixels, self.labels = pixels, np.asarray(labels, dtype=np.int64)
        self.scale, self.augmentation = scale, augmentation
        self.batch = min(batch, len(pixels))
        require_rows(self.batch, world)

    def settings(self) -> dict[str, int]:
        """Pictures, their sides and the batch."""
        height, width = self.pixels.shape[1:3]
        return {"pictures": len(self.pixels), "height": height, "width": width, "batch": self.batch}

    def _sample(self) -> Iterator[Sequence[int]]:
        stride = max(1, len(self.pixels) // SAMPLED)
        yield self.pixels[::stride].ravel()  # pyright: ignore[reportReturnType] - an array will do
        yield self.labels[::stride]  # pyright: ignore[reportReturnType]

    def _shuffled(self, random: np.random.Generator) -> Plan:
        order = random.permutation(len(self.pixels))[: len(self.pixels) // self.batch * self.batch]
        return list(order.reshape(-1, self.batch))

    def _in_order(self) -> Plan:
        return [np.arange(at, min(at + self.batch, len(self.pixels))) for at in range(0, len(self.pixels), self.batch)]

    def once(self) -> Iterator[Batch]:
        """One pass in the order of the data, without augmentation."""
        for rows in self._in_order():
            mine = rows[self.rank :: self.world]
            labels = torch.from_numpy(self.labels[mine])
            yield {PIXEL_VALUES: normalize_pixels(self.pixels[mine], *self.scale), "labels": labels}

    def _make(self, rows: Rows, epoch: int, index: int) -> Batch:
        random, mine = generator(self.seed, epoch, index, AUGMENTATION), slice(self.rank, None, self.world)
        changes = _Changes.draw(random, len(rows), self.augmentation, *self.pixels.shape[1:3])
        pictures = changes.apply(self.pixels[rows], self.scale)
        labels = torch.from_numpy(self.labels[rows])
        if not self.augmentation.mixes:
            return {PIXEL_VALUES: pictures[mine].contiguous(), "labels": labels[mine]}
        others = torch.from_numpy(random.permutation(len(rows)))
        pictures, kept = _mixed(pictures, others, random, self.augmentation)
        weights = torch.tensor([kept, 1 - kept], device="cpu").expand(len(rows), 2)
        both = torch.stack([labels, labels[others]], -1)
        return {PIXEL_VALUES: pictures[mine].contiguous(), "labels": both[mine], WEIGHTS: weights[mine]}


@dataclass(frozen=True)
class _Changes:
    """Where each picture of a batch is moved, whether it is mirrored, and the rectangle that is erased."""

    shift: int
    offsets: np.ndarray
    flips: np.ndarray
    boxes: np.ndarray | None

    @classmethod
    def draw(
        cls, random: np.random.Generator, count: int, augmentation: Augmentation, height: int, width: int
    ) -> "_Changes":
        """Draw the changes of a batch."""
        offsets = random.integers(0, 2 * augmentation.shift + 1, (2, count))
        flips = random.random(count) < (0.5 if augmentation.flip else 0.0)
        boxes = None
        if augmentation.erase > 0:
            chosen = random.random(count) < augmentation.erase
            boxes = _boxes(random, random.uniform(*ERASED, count) * chosen, height, width)
        return cls(augmentation.shift, offsets, flips, boxes)

    def apply(self, pixels: np.ndarray, scale: Scale) -> Tensor:
        """The changed pictures, normalized; what is erased becomes the mean."""
        height, width = pixels.shape[1:3]
        if self.shift:
            margin = (self.shift, self.shift)
            padded = np.pad(pixels, ((0, 0), margin, margin, (0, 0)), mode="edge")
            windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), (1, 2))
            moved = windows[np.arange(len(pixels)), self.offsets[0], self.offsets[1]]
        else:
            moved = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
        moved[self.flips] = moved[self.flips][..., ::-1]
        found = _normalized(torch.from_numpy(moved), *scale)
        if self.boxes is None:
            return found
        top, left, bottom, right = self.boxes[..., None]
        rows, columns = np.arange(height), np.arange(width)
        inside = ((rows >= top) & (rows < bottom))[:, :, None] & ((columns >= left) & (columns < right))[:, None]
        return found.masked_fill_(torch.from_numpy(inside)[:, None], 0.0)


def _boxes(random: np.random.Generator, areas: np.ndarray, height: int, width: int) -> np.ndarray:
    """Rectangles of these fractions of a picture, as far as it goes: their top, left, bottom and right."""
    stretch = np.exp(random.uniform(-0.5, 0.5, len(areas)))
    high = np.minimum(np.rint(np.sqrt(areas) * stretch * height), height)
    broad = np.minimum(np.rint(np.sqrt(areas) / stretch * width), width)
    top = np.floor(random.random(len(areas)) * (height - high + 1))
    left = np.floor(random.random(len(areas)) * (width - broad + 1))
    return np.stack([top, left, top + high, left + broad])


def _mixed(
    pictures: Tensor, others: Tensor, random: np.random.Generator, augmentation: Augmentation
) -> tuple[Tensor, float]:
    """Pictures with a part of others in them, and the fraction that is theirs."""
    cut, mix, fraction = random.random(3)
    if cut < augmentation.cutmix:
        top, left, bottom, right = _boxes(random, np.array([fraction]), *pictures.shape[2:])[:, 0].astype(int)
        pictures[:, :, top:bottom, left:right] = pictures[others][:, :, top:bottom, left:right]
        return pictures, 1 - float((bottom - top) * (right - left)) / (pictures.shape[2] * pictures.shape[3])
    if mix < augmentation.mixup:
        return pictures.lerp_(pictures[others], float(fraction)), 1 - float(fraction)
    return pictures, 1.0
