"""Pictures with captions: a table of image files and texts, or of the rows of a .npz file and texts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch.nn import functional

from glassformer.data.files import LabeledText, paths_in, read_labeled
from glassformer.data.image_arrays import IMAGE_NAMES, read_npz
from glassformer.data.images import read_images, require_pillow
from glassformer.errors import DataError

Pictures = UInt8[np.ndarray, "count height width channels"]
USUAL_SIZE = 32  # pixels of image files whose size nobody gives


@dataclass(frozen=True)
class CaptionedImages:
    """Pictures of one size; of each its captions, of which the first is the one it is evaluated by, and its source."""

    pixels: Pictures
    captions: tuple[tuple[str, ...], ...]
    sources: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.captions)

    @property
    def first_captions(self) -> list[str]:
        """The first caption of each picture."""
        return [each[0] for each in self.captions]

    def select(self, rows: Sequence[int]) -> "CaptionedImages":
        """Some of the pictures, by number."""
        captions, sources = tuple(self.captions[row] for row in rows), tuple(self.sources[row] for row in rows)
        return CaptionedImages(self.pixels[np.asarray(rows, dtype=np.int64)], captions, sources)


@dataclass(frozen=True)
class CaptionTable:
    """Where captioned pictures are, and how to read them.

    `images` is a .npz file whose rows the table's pictures count; without one they are image files, relative to the
    table. Several captions in one field have the `separator` between them.
    """

    path: str
    images: str = ""
    fields: tuple[str, str] = ("image", "caption")
    separator: str = ""

    def rows(self) -> list[LabeledText]:
        """The rows of the table: the picture as the label, the captions as the text."""
        return list(read_labeled(self.path, self.fields))

    def captions(self, row: LabeledText) -> tuple[str, ...]:
        """The captions in a row of the table."""
        parts = row.text.split(self.separator) if self.separator else [row.text]
        return tuple(part.strip() for part in parts if part.strip())

    def read(self, size: int | None, channels: int, report: Callable[[str], None]) -> CaptionedImages:
        """The pictures that can be read, with their captions; broken files are skipped and counted."""
        if not self.images:
            require_pillow(f"{self.path}: reading pictures")
        rows = self.rows()
        if self.images:
            pixels, kept = self._from_arrays(rows, size, channels), list(range(len(rows)))
        else:
            base = paths_in(self.path)[0]
            folder = base if base.is_dir() else base.parent
            files = (folder / row.label for row in rows)
            pixels, kept = read_images(files, size or USUAL_SIZE, channels, report, "bicubic", "crop")
        if not kept:
            raise DataError(f"{self.path}: none of its {len(rows):,} pictures can be read")
        captions = tuple(self.captions(rows[number]) for number in kept)
        return CaptionedImages(pixels, captions, tuple(rows[number].source for number in kept))

    def _from_arrays(self, rows: Sequence[LabeledText], size: int | None, channels: int) -> Pictures:
        pixels = read_pictures(Path(self.images))
        for row in rows:
            if not row.label.isdecimal() or int(row.label) >= len(pixels):
                wanted = f"wanted the number of a picture, 0 to {len(pixels) - 1}, in {self.images}"
                raise DataError(f"{row.source}: {self.fields[0]} is {row.label[:40]!r}, {wanted}")
        chosen = pixels[np.array([int(row.label) for row in rows], dtype=np.int64)]
        return fit_pictures(chosen, size, channels, self.images)


def read_pictures(path: Path) -> Pictures:
    """The pictures of a .npz file: `images`, unsigned bytes [count, height, width], or with channels after."""
    arrays = read_npz(path)
    name = next((name for name in IMAGE_NAMES if name in arrays), None)
    if name is None:
        raise DataError(f"{path}: has no array images, only {', '.join(arrays) or 'none'}")
    return require_pictures(arrays[name], f"{path}: {name}")


def require_pictures(pixels: np.ndarray, where: str) -> Pictures:
    """An array of pictures with an axis for channels, or an error that says what it is instead."""
    if pixels.dtype != np.uint8 or pixels.ndim not in (3, 4):
        what = f"{pixels.dtype} {list(pixels.shape)}"
        raise DataError(f"{where} is {what}, wanted uint8 [count, height, width] or [count, height, width, channels]")
    if 0 in pixels.shape:
        raise DataError(f"{where} has the shape {list(pixels.shape)}, wanted at least one pixel")
    pixels = pixels[..., None] if pixels.ndim == 3 else pixels
    if pixels.shape[-1] not in (1, 3):
        raise DataError(f"{where} has the shape {list(pixels.shape)}, wanted 1 or 3 channels at the end")
    return pixels


def fit_pictures(pixels: Pictures, size: int | None, channels: int, where: str) -> Pictures:
    """Pictures of a square size with these channels: resized, gray repeated; color is not turned gray."""
    height, width, found = pixels.shape[1:]
    if found not in (1, channels):
        raise DataError(f"{where}: pictures have {found} channels, wanted {channels}")
    if size is None and height != width:
        raise DataError(f"{where}: pictures have {height} × {width} pixels, wanted squares: give data.image_size")
    pixels = np.repeat(pixels, channels, -1) if found != channels else pixels
    side = height if size is None else size
    if (height, width) == (side, side):
        return pixels
    values = torch.from_numpy(pixels.astype(np.float32)).permute(0, 3, 1, 2)
    resized = functional.interpolate(values, (side, side), mode="bilinear", antialias=True)
    return resized.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).numpy()
