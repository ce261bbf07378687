"""Batches of pictures with captions for contrastive learning, varied anew in every epoch."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from glassformer.data.batches import Batch, Batches, Plan, Rows, generator, require_rows, sample_stride
from glassformer.data.captions import CaptionedImages, Pictures
from glassformer.data.padded_batches import padded, token_counts
from glassformer.data.picture_augmentation import Strength, augment, background_of
from glassformer.errors import DataError

SIDES = re.compile(r"\b(left|right|east|west|clockwise|counterclockwise|anticlockwise)\b", re.IGNORECASE)
FIRST = 0.5  # how often the first of several captions is taken
ORDER, CAPTIONS, PIXELS = 0, 1, 2  # what random numbers are for


@dataclass(frozen=True)
class Variation:
    """How batches vary from epoch to epoch: the pictures, whether some are mirrored, and tokens that are left out."""

    pictures: Strength = "none"
    mirror: bool = False
    token_dropout: float = 0.0


PLAIN = Variation()


@dataclass(frozen=True)
class PixelScale:
    """Mean and standard deviation of each channel, on a scale from 0 to 1, by which pixels are normalized."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, pixels: Tensor) -> Tensor:
        """Pixels [count, channels, height, width] from 0 to 1 as a model reads them."""
        mean, std = (
            torch.tensor(each, dtype=torch.float32, device="cpu")[:, None, None] for each in (self.mean, self.std)
        )
        return (pixels - mean) / std


def to_unit(pixels: Pictures) -> Tensor:
    """Pictures of unsigned bytes as numbers from 0 to 1, [count, channels, height, width]."""
    return torch.from_numpy(np.array(pixels)).permute(0, 3, 1, 2).float() / 255


class CaptionBatches(Batches):
    """Pictures and captions: `pixel_values`, `ids`, `attention_mask`, and `labels`, the same for equal captions.

    In training one of a picture's captions is drawn, the first half of the time, and everything varies as `variation`
    says; it depends only on the seed, the epoch and the batch. A pass in order has the first captions, unvaried.
    """

    variation: Variation = PLAIN

    def __init__(
        self,
        data: CaptionedImages,
        tokens: Sequence[Sequence[Sequence[int]]],
        scale: PixelScale,
        batch: int,
        pad: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        super().__init__(seed, rank, world)
        if len(data) != len(tokens):
            raise DataError(f"{len(data)} pictures and captions of {len(tokens)}, wanted the same number")
        self.data, self.tokens, self.scale, self.pad = data, tokens, scale, pad
        counts = [token_counts(each, f"a caption of picture {row}:") for row, each in enumerate(tokens)]
        self._length = max((int(each.max()) for each in counts), default=0)
        self._total = sum(int(each.sum()) for each in counts)
        numbers = {text: number for number, text in enumerate(dict.fromkeys(t for c in data.captions for t in c))}
        self._numbers = [[numbers[text] for text in texts] for texts in data.captions]
        self._mirrors = torch.tensor([not any(map(SIDES.search, texts)) for texts in data.captions])
        self._background: Tensor | None = None
        self.batch = min(batch, len(data))
        require_rows(self.batch, world)

    def settings(self) -> dict[str, int]:
        """Pictures, the tokens of their captions, and the batch."""
        return {"pairs": len(self.data), "tokens": self._total, "batch": self.batch}

    def _sample(self) -> Iterator[Sequence[int]]:
        stride = sample_stride(len(self.data))
        for row in range(0, len(self.data), stride):
            yield from self.tokens[row]
            yield self.data.pixels[row].ravel()  # pyright: ignore[reportReturnType] - an array will do

    def _shuffled(self, random: np.random.Generator) -> Plan:
        order = random.permutation(len(self.data))[: len(self.data) // self.batch * self.batch]
        return list(order.reshape(-1, self.batch))

    def _in_order(self) -> Plan:
        """Batches of about the same size: the loss of a batch depends on the number of its pairs."""
        return np.array_split(np.arange(len(self.data)), -(-len(self.data) // self.batch))

    def once(self) -> Iterator[Batch]:
        """One pass in the order of the data, for evaluation: the first captions, and pictures as they are."""
        for rows in self._in_order():
            mine = rows[self.rank :: self.world]
            texts = [self.tokens[row][0] for row in mine]
            yield self._batch(to_unit(self.data.pixels[mine]), texts, [self._numbers[row][0] for row in mine])

    def _make(self, rows: Rows, epoch: int, index: int) -> Batch:
        """Random numbers are drawn for the whole batch, so that any number of processes varies it the same way."""
        random, mine = generator(self.seed, epoch, index, CAPTIONS), slice(self.rank, None, self.world)
        texts, numbers = zip(*(self._caption(row, random) for row in rows), strict=True)
        pixels = to_unit(self.data.pixels[rows])
        if self.variation.pictures != "none":
            seed = int(generator(self.seed, epoch, index, PIXELS).integers(2**62))
            mirrors = self._mirrors[rows] & self.variation.mirror
            source = torch.Generator().manual_seed(seed)
            pixels = augment(pixels, self._behind(rows), mirrors, self.variation.pictures, source)
        return self._batch(pixels[mine], texts[mine], numbers[mine])

    def _behind(self, rows: Rows) -> Tensor:
        if self._background is None:
            self._background = torch.from_numpy(background_of(self.data.pixels))
        return self._background[torch.from_numpy(rows)]

    def _caption(self, row: int, random: np.random.Generator) -> tuple[Sequence[int], int]:
        """One of the captions of a picture, perhaps without some of its tokens, and the number of its text."""
        count = len(self.tokens[row])
        first, other = random.random() < FIRST, int(random.integers(1, count)) if count > 1 else 0
        chosen = 0 if first else other
        ids = self.tokens[row][chosen]
        if self.variation.token_dropout and len(ids) > 3:
            kept = random.random(len(ids)) >= self.variation.token_dropout
            kept[[0, -1]] = True  # the special tokens
            kept[1 + int(random.integers(len(ids) - 2))] = True
            ids = [id for id, keep in zip(ids, kept, strict=True) if keep]
        return ids, self._numbers[row][chosen]

    def _batch(self, pixels: Tensor, texts: Sequence[Sequence[int]], numbers: Sequence[int]) -> Batch:
        lengths = torch.tensor([len(ids) for ids in texts], dtype=torch.int64, device=pixels.device)
        return {
            "pixel_values": self.scale(pixels),
            "ids": padded(texts, self._length, self.pad),
            "attention_mask": torch.arange(self._length, device=pixels.device) < lengths[:, None],
            "labels": torch.tensor(numbers, dtype=torch.int64, device=pixels.device),
        }
