"""Pictures alone, without labels or captions: a folder of image files, arrays, or built-in ones."""

from collections.abc import Callable
from pathlib import Path

from glassformer.data.captions import USUAL_SIZE, Pictures, fit_pictures, read_pictures, require_pictures
from glassformer.data.drawn_shapes import NAME as SHAPES
from glassformer.data.drawn_shapes import drawn_shapes
from glassformer.data.files import paths_in
from glassformer.data.image_arrays import DIGITS, digits, is_idx, read_idx
from glassformer.data.images import is_image_file, read_images, require_pillow
from glassformer.data.splitting import split
from glassformer.errors import DataError, PathError

COLOR = 3  # channels


def read_unlabeled(path: str, size: int | None, channels: int, report: Callable[[str], None]) -> Pictures:
    """The pictures of a folder, an .npz file, an IDX file or the built-in shapes or digits, all of one size.

    Broken files of a folder are skipped and counted.
    """
    if path in (SHAPES, DIGITS):
        return fit_pictures((drawn_shapes() if path == SHAPES else digits()).pixels, size, channels, path)
    file = paths_in(path)[0]
    if file.is_dir():
        return _read_folder(file, size or USUAL_SIZE, channels, report)
    if file.suffix.lower() == ".npz":
        return fit_pictures(read_pictures(file), size, channels, path)
    if is_idx(file):
        return fit_pictures(require_pictures(read_idx(file), path), size, channels, path)
    raise PathError(f"{path}: wanted a folder of pictures, an .npz file or an IDX file")


def _read_folder(folder: Path, size: int, channels: int, report: Callable[[str], None]) -> Pictures:
    require_pillow(f"{folder}: reading pictures")
    files = sorted(path for path in folder.rglob("*") if is_image_file(path) and not path.name.startswith("."))
    if not files:
        raise PathError(f"{folder}: holds no pictures")
    pixels, kept = read_images(files, size, channels, report, "bicubic", "crop")
    if not kept:
        raise DataError(f"{folder}: none of its {len(files):,} pictures can be read")
    return pixels


def split_pictures(pixels: Pictures, fraction: float, seed: int) -> tuple[list[int], list[int]]:
    """The numbers of the pictures for training, and of a fraction for validation; equal pictures stay on one side."""
    copies: dict[bytes, list[int]] = {}
    for number, picture in enumerate(pixels):
        copies.setdefault(picture.tobytes(), []).append(number)
    sides = split(list(copies), fraction, seed)
    train, validation = (sorted(number for each in side for number in copies[each]) for side in sides)
    return train, validation
