"""Batches of pictures, and of captions with the tokens of pictures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Integer
from torch import Tensor

from glassformer.data.batches import (
    IGNORE,
    WEIGHTS,
    Batch,
    Batches,
    Plan,
    Rows,
    generator,
    require_rows,
    sample_stride,
)
from glassformer.data.caption_batches import FIRST, to_unit
from glassformer.data.captions import Pictures
from glassformer.data.padded_batches import padded
from glassformer.data.picture_augmentation import Strength, augment, background_of
from glassformer.errors import DataError

DRAWS = 1  # key of the random numbers of a batch, beside those of its order


class RowBatches(Batches):
    """Batches of a fixed number of rows in random order; the last rows that do not fill one are left for later."""

    def __init__(self, count: int, batch: int, seed: int, rank: int = 0, world: int = 1) -> None:
        super().__init__(seed, rank, world)
        if not count:
            raise DataError("no data to make batches of")
        self.count, self.batch = count, min(batch, count)
        require_rows(self.batch, world)

    def settings(self) -> dict[str, int]:
        """Rows of the data and of a batch."""
        return {"rows": self.count, "batch": self.batch}

    def _shuffled(self, random: np.random.Generator) -> Plan:
        order = random.permutation(self.count)[: self.count // self.batch * self.batch]
        return list(order.reshape(-1, self.batch))

    def _in_order(self) -> Plan:
        return [np.arange(at, min(at + self.batch, self.count)) for at in range(0, self.count, self.batch)]

    def _mine(self, rows: Rows) -> Rows:
        return rows[self.rank :: self.world]


class PictureBatches(RowBatches):
    """Pictures as `pixel_values` [batch, channels, height, width], from 0 to 1, varied for training."""

    def __init__(
        self, pixels: Pictures, batch: int, seed: int, rank: int = 0, world: int = 1, strength: Strength = "none"
    ) -> None:
        super().__init__(len(pixels), batch, seed, rank, world)
        self.pixels = pixels
        self.strength: Strength = strength

    def _sample(self) -> Iterator[Sequence[int]]:
        return (picture.ravel() for picture in self.pixels[:: sample_stride(self.count)])  # pyright: ignore

    def _make(self, rows: Rows, epoch: int, index: int) -> Batch:
        mine = self._mine(rows)
        pixels = to_unit(self.pixels[mine])
        seed = int(generator(self.seed, epoch, index, self.rank, DRAWS).integers(2**63))
        return {"pixel_values": varied(pixels, self.pixels[mine], self.strength, seed, mirror=True)}


def varied(values: Tensor, pixels: Pictures, strength: Strength, seed: int, mirror: bool) -> Tensor:
    """Random variations of pictures given as values and as bytes; the same for the same seed."""
    if strength == "none":
        return values
    background = torch.zeros(pixels.shape[:3], dtype=torch.bool)
    if strength == "strong":
        background = torch.from_numpy(background_of(pixels))
    mirrored = torch.full((len(values),), mirror)
    return augment(values, background, mirrored, strength, torch.Generator().manual_seed(seed))


@dataclass(frozen=True)
class TokenLayout:
    """How captions and pictures share a sequence: text first, padded, then the codes of the picture."""

    text_length: int
    text_vocab: int
    pad: int

    def text(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Captions as token ids [batch, text_length], cut or padded."""
        return padded([row[: self.text_length] for row in rows], self.text_length, self.pad)

    def sequences(self, rows: Sequence[Sequence[int]], codes: Tensor) -> Tensor:
        """Captions and pictures as token ids [batch, text_length + tokens]."""
        return torch.cat([self.text(rows), codes + self.text_vocab], 1)


class CaptionedTokenBatches(RowBatches):
    """Captions followed by pictures as tokens: `ids`, `targets` one token further, and the `weights` of the targets.

    `codes` are the tokens of each picture in several variations, the first the picture itself. For training
    (`varies`), a variation and a caption are drawn, and some captions are left empty, for guidance.
    """

    varies = False
    text_weight, caption_dropout = 1.0, 0.0
    checksum = 0  # of the pictures; their codes may differ in the last digit between devices

    def __init__(
        self,
        captions: Sequence[Sequence[Sequence[int]]],
        codes: Integer[np.ndarray, "variations rows tokens"],
        layout: TokenLayout,
        batch: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        super().__init__(len(captions), batch, seed, rank, world)
        if codes.shape[1] != len(captions):
            raise DataError(f"{codes.shape[1]} pictures and {len(captions)} captions, wanted the same number")
        self.captions, self.codes, self.layout = captions, codes, layout

    def _sample(self) -> Iterator[Sequence[int]]:
        stride = sample_stride(self.count)
        yield from (caption for row in self.captions[::stride] for caption in row)

    def settings(self) -> dict[str, int]:
        """Rows of the data and of a batch, and a checksum of the pictures."""
        return super().settings() | {"pictures": self.checksum}

    def _make(self, rows: Rows, epoch: int, index: int) -> Batch:
        variation, caption, kept = np.zeros((3, len(rows)), dtype=np.int64)
        kept += 1
        if self.varies:
            random = generator(self.seed, epoch, index, DRAWS)
            variation = random.integers(len(self.codes), size=len(rows))
            caption = random.integers(2**31, size=len(rows)) * (random.random(len(rows)) >= FIRST)
            kept = random.random(len(rows)) >= self.caption_dropout
        mine = list(zip(*(self._mine(each).tolist() for each in (rows, variation, caption, kept)), strict=True))
        texts = [self.captions[row][at % len(self.captions[row])] if keep else [] for row, _, at, keep in mine]
        codes = torch.from_numpy(self.codes[[each[1] for each in mine], [each[0] for each in mine]])
        return self._shifted(self.layout.sequences(texts, codes.long()))

    def _shifted(self, ids: Tensor) -> Batch:
        targets = ids[:, 1:].clone()
        of_text = torch.arange(1, ids.shape[1]) < self.layout.text_length
        weights = torch.where(of_text, self.text_weight, 1.0).expand(targets.shape)
        padding = of_text & (targets == self.layout.pad)
        return {
            "ids": ids[:, :-1].contiguous(),
            "targets": targets.masked_fill(padding, IGNORE),
            WEIGHTS: weights.masked_fill(padding, 0.0),
        }
