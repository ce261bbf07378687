"""Pictures from image files, one or a folder of folders by class; errors name the file, and nothing in it is run."""

import importlib
import struct
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Literal

import numpy as np
from jaxtyping import UInt8

from glassformer.errors import DataError, MissingExtraError, PathError
from glassformer.safe_read import plain_file

Pixels = UInt8[np.ndarray, "height width channels"]
Resampling = Literal["bilinear", "bicubic"]
Fit = Literal["stretch", "crop"]

MOST_PIXELS = 2**26  # of a picture, checked before it is decoded: a small file can hold very many
MOST_BYTES = 2**28  # of an image file
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "PPM", "TIFF")  # none of which runs another program
ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".ppm", ".pgm", ".tif", ".tiff")
CHANNELS = {1: "L", 3: "RGB"}  # Pillow's modes for gray and color
BROKEN = (OSError, ValueError, SyntaxError, EOFError, LookupError, TypeError, ArithmeticError, MemoryError)
SHOWN_BROKEN = 5  # files that cannot be read, by name
REPORT_SECONDS = 2.0  # between two reports of progress


@dataclass(frozen=True)
class LabeledImages:
    """Pictures of one size, the label of each, and the sources they come from."""

    pixels: UInt8[np.ndarray, "count height width channels"]
    labels: tuple[str, ...]
    sources: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, rows: Sequence[int] | np.ndarray) -> "LabeledImages":
        """Some of the pictures, by number."""
        labels, sources = (tuple(each[row] for row in rows) for each in (self.labels, self.sources))
        return LabeledImages(self.pixels[np.asarray(rows, dtype=np.int64)], labels, sources)


def require_pillow(what: str = "reading pictures") -> ModuleType:
    """Pillow's `Image` module, or an error that names the extra; asked for before the work begins."""
    try:
        return importlib.import_module("PIL.Image")
    except ModuleNotFoundError:
        raise MissingExtraError(f'{what} needs pillow: pip install "glassformer[vision]"') from None


def is_image_file(path: Path) -> bool:
    """Whether a file is called like a picture."""
    return path.suffix.lower() in ENDINGS


def read_image(
    path: Path | str,
    size: int | tuple[int, int] | None = None,
    channels: int = 3,
    resampling: Resampling = "bilinear",
    fit: Fit = "stretch",
) -> Pixels:
    """The pixels of an image file, resized to a square of `size` or to (height, width); None keeps its size.

    Transparent parts become white. `fit` stretches the picture, or scales its shorter side and crops the center, as
    CLIP does. Raises DataError on what is not an image, is truncated, or has too many pixels.
    """
    image_module, path = require_pillow(f"{path}: reading a picture"), Path(path)
    if channels not in CHANNELS:
        raise DataError(f"channels is {channels}, wanted 1 (gray) or 3 (color)")
    if plain_file(path, DataError).stat().st_size > MOST_BYTES:
        raise DataError(f"{path}: has more than {MOST_BYTES:,} bytes, too many for a picture")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's warnings about files that it can read all the same
            with image_module.open(path, formats=FORMATS) as image:
                _require_few_pixels(path, *image.size)
                image.load()
                upright = importlib.import_module("PIL.ImageOps").exif_transpose(image)
                found = _resized(image_module, _converted(image_module, upright, channels), size, resampling, fit)
    except image_module.UnidentifiedImageError:
        raise DataError(f"{path}: is not an image, wanted one of {', '.join(FORMATS)}") from None
    except image_module.DecompressionBombError:
        raise DataError(f"{path}: has too many pixels, wanted at most {MOST_PIXELS:,}") from None
    except DataError:
        raise
    except (*BROKEN, struct.error, zlib.error) as error:
        raise DataError(f"{path}: cannot be decoded: {str(error) or type(error).__name__}") from None
    pixels = np.asarray(found, dtype=np.uint8)
    return pixels[..., None] if channels == 1 else pixels


def image_size(path: Path) -> tuple[int, int, int]:
    """Height, width and channels (1 or 3) of an image file, from its header."""
    image_module = require_pillow(f"{path}: reading a picture")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with image_module.open(path, formats=FORMATS) as image:
                width, height = image.size
                return height, width, 1 if image.mode in ("1", "L", "LA", "I", "I;16", "F") else 3
    except (*BROKEN, struct.error, zlib.error, image_module.DecompressionBombError) as error:
        raise DataError(f"{path}: is not an image that can be read: {error}") from None


def _require_few_pixels(path: Path, width: int, height: int) -> None:
    if width * height > MOST_PIXELS:
        raise DataError(f"{path}: has {width} × {height} pixels, wanted at most {MOST_PIXELS:,} in all")


def _converted(image_module: ModuleType, image: object, channels: int) -> object:
    """A picture of any mode as 8-bit gray or RGB: transparency on white, 16 bits scaled down."""
    picture = image
    mode = picture.mode  # pyright: ignore[reportAttributeAccessIssue] - Pillow is optional
    if mode in ("I", "F") or mode.startswith("I;16"):
        values = np.asarray(picture, dtype=np.float64)
        scale = 257 if values.max(initial=0) > 255 else 1
        picture = image_module.fromarray((values / scale).clip(0, 255).round().astype(np.uint8))
    transparent = "transparency" in picture.info or mode in ("LA", "PA", "RGBA", "La", "RGBa")  # pyright: ignore[reportAttributeAccessIssue]
    if transparent:
        colored = picture.convert("RGBA")  # pyright: ignore[reportAttributeAccessIssue]
        picture = image_module.alpha_composite(image_module.new("RGBA", colored.size, "white"), colored)
    return picture.convert(CHANNELS[channels])  # pyright: ignore[reportAttributeAccessIssue]


def _resized(
    image_module: ModuleType, image: object, size: int | tuple[int, int] | None, resampling: Resampling, fit: Fit
) -> object:
    width, height = image.size  # pyright: ignore[reportAttributeAccessIssue]
    if size is None:
        return image
    rows, columns = (size, size) if isinstance(size, int) else size
    method = getattr(image_module.Resampling, resampling.upper())
    if fit == "crop":
        scale = max(rows / height, columns / width)
        width, height = max(round(width * scale), columns), max(round(height * scale), rows)
        left, top = (width - columns) // 2, (height - rows) // 2
        scaled = image.resize((width, height), method)  # pyright: ignore[reportAttributeAccessIssue]
        return scaled.crop((left, top, left + columns, top + rows))
    same = (width, height) == (columns, rows)
    return image if same else image.resize((columns, rows), method)  # pyright: ignore[reportAttributeAccessIssue]


def read_images(
    paths: Iterable[Path],
    size: int,
    channels: int,
    report: Callable[[str], None],
    resampling: Resampling = "bilinear",
    fit: Fit = "stretch",
) -> tuple[UInt8[np.ndarray, "count size size channels"], list[int]]:
    """The pictures that can be read, and their numbers among the paths.

    Broken files are reported and skipped, with their count at the end; so is progress that takes long.
    """
    found: list[Pixels] = []
    kept: list[int] = []
    broken, number, began = 0, -1, time.monotonic()
    for number, path in enumerate(paths):
        try:
            found.append(read_image(path, size, channels, resampling, fit))
            kept.append(number)
        except DataError as error:
            broken += 1
            if broken <= SHOWN_BROKEN:
                report(f"skipped: {error}")
        if time.monotonic() - began > REPORT_SECONDS:
            report(f"{number + 1:,} pictures read")
            began = time.monotonic()
    if broken:
        report(f"{broken:,} of {number + 1:,} pictures cannot be read and are skipped")
    shape = (len(found), size, size, channels)
    return np.stack(found) if found else np.zeros(shape, dtype=np.uint8), kept


def fitted(images: LabeledImages, size: int | None, channels: int | None) -> LabeledImages:
    """Pictures scaled to a square of `size`, and with 1 or 3 channels; None keeps what they have, if it is square."""
    pixels = images.pixels
    height, width, own = pixels.shape[1:]
    if channels == 3 and own == 1:
        pixels = np.repeat(pixels, 3, -1)
    elif channels == 1 and own == 3:
        pixels = (pixels @ np.array([0.299, 0.587, 0.114]))[..., None].round().astype(np.uint8)
    if size is None and height != width:
        where = images.sources[0].rpartition(":")[0]
        raise DataError(f"{where}: pictures have {height} × {width} pixels, wanted a square: set data.image_size")
    if size is not None and (height, width) != (size, size):
        image_module = require_pillow("scaling pictures")
        each = (image_module.fromarray(_flat(picture)) for picture in pixels)
        scaled = [np.asarray(_resized(image_module, one, size, "bilinear", "stretch"), dtype=np.uint8) for one in each]
        pixels = np.stack(scaled).reshape(len(pixels), size, size, -1)
    return LabeledImages(pixels, images.labels, images.sources)


def _flat(pixels: Pixels) -> UInt8[np.ndarray, "..."]:
    """Pixels as Pillow takes them: without an axis for the only channel."""
    return pixels[..., 0] if pixels.shape[-1] == 1 else pixels


def class_folders(folder: Path) -> dict[str, list[Path]]:
    """The image files of a folder by the name of the subfolder they are in, which is their class."""
    found: dict[str, list[Path]] = {}
    for each in sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")):
        files = sorted(path for path in each.rglob("*") if is_image_file(path) and not path.name.startswith("."))
        if files:
            found[each.name] = files
    if not found:
        flat = any(is_image_file(path) for path in folder.iterdir())
        why = "holds pictures without a class" if flat else "holds no pictures"
        raise PathError(f"{folder}: {why}, wanted a folder for each class with its pictures: {folder}/cat/1.png")
    return found


def read_image_folder(folder: Path, size: int, channels: int, report: Callable[[str], None]) -> LabeledImages:
    """The pictures of a folder of folders, each named after a class."""
    named = [(label, file) for label, files in class_folders(folder).items() for file in files]
    pixels, kept = read_images((file for _, file in named), size, channels, report)
    if not kept:
        raise DataError(f"{folder}: none of its {len(named):,} pictures can be read")
    return LabeledImages(pixels, tuple(named[i][0] for i in kept), tuple(str(named[i][1]) for i in kept))
