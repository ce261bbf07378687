"""Pictures from arrays: IDX files such as MNIST, .npz files, and scikit-learn's digits; all without Pillow."""

import gzip
import importlib
import math
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8

from glassformer.data.files import paths_in
from glassformer.data.images import LabeledImages
from glassformer.errors import DataError, MissingExtraError, PathError
from glassformer.safe_read import plain_file

DIGITS = "digits"  # the name of the built-in data
MOST_NUMBERS = 2**31  # in an array: a header can claim any size
UNSIGNED_BYTES = 8  # the only element type of IDX files that holds pictures or labels
IMAGE_NAMES, LABEL_NAMES = ("images", "x", "pixels", "data"), ("labels", "y", "targets")  # of arrays in a .npz file
IMAGES, LABELS = "images-idx3", "labels-idx1"  # in the names of MNIST's files
HIGHEST = 16.0  # value of a pixel in scikit-learn's digits


def read_idx(path: Path | str) -> UInt8[np.ndarray, "..."]:
    """The array of an IDX file, compressed (.gz) or not; its header must fit its size."""
    path = plain_file(Path(path), DataError)
    try:
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as file:
            start = file.read(4)
            if len(start) < 4 or start[:2] != b"\0\0" or start[2] != UNSIGNED_BYTES or not 1 <= start[3] <= 4:
                raise DataError(f"{path}: does not begin like an IDX file of unsigned bytes with 1 to 4 axes")
            sizes = file.read(4 * start[3])
            if len(sizes) < 4 * start[3]:
                raise DataError(f"{path}: ends within its header")
            shape = tuple(map(int, np.frombuffer(sizes, dtype=">u4")))
            count = math.prod(shape)
            if count > MOST_NUMBERS:
                raise DataError(f"{path}: its header says {count:,} bytes, wanted at most {MOST_NUMBERS:,}")
            values = file.read(count + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    if len(values) != count:
        size = "more" if len(values) > count else f"{len(values):,}"
        raise DataError(f"{path}: its header says {count:,} bytes and it holds {size}")
    return np.frombuffer(values, dtype=np.uint8).reshape(shape)


def is_idx(path: Path | str) -> bool:
    """Whether a path names IDX files: one of pictures with its labels beside it, or both with a comma between."""
    parts = paths_in(path)
    return len(parts) == 2 or any(mark in parts[0].name for mark in (IMAGES, "-ubyte", ".idx"))


def read_idx_images(path: Path | str) -> LabeledImages:
    """Pictures of an IDX file and the labels of another.

    The other follows a comma, or is called like the first with labels-idx1 in place of images-idx3.
    """
    parts = paths_in(path)
    if len(parts) == 1 and IMAGES not in parts[0].name:
        wanted = f"wanted a file called ...{IMAGES}-ubyte with its labels beside it, or pictures, labels"
        raise PathError(f"{path}: does not say where the labels are, {wanted}")
    images = parts[0]
    labels = parts[1] if len(parts) == 2 else images.with_name(images.name.replace(IMAGES, LABELS))
    pixels, numbers = read_idx(images), read_idx(labels)
    if pixels.ndim not in (3, 4):
        raise DataError(f"{images}: has {pixels.ndim} axes, wanted pictures, rows, columns")
    if numbers.ndim != 1:
        raise DataError(f"{labels}: has {numbers.ndim} axes, wanted one label for each picture")
    return labeled_arrays(str(images), pixels, [str(number) for number in numbers.tolist()])


def read_npz_images(path: Path | str) -> LabeledImages:
    """Pictures and labels of a .npz file: `images`, unsigned bytes, and `labels`, numbers or text."""
    arrays = read_npz(Path(path))
    pixels = next((arrays[name] for name in IMAGE_NAMES if name in arrays), None)
    labels = next((arrays[name] for name in LABEL_NAMES if name in arrays), None)
    if pixels is None or labels is None:
        missing = "images" if pixels is None else "labels"
        raise DataError(f"{path}: has no array {missing}, only {', '.join(arrays) or 'none'}")
    if labels.ndim != 1 or labels.dtype.kind not in "iuU":
        raise DataError(f"{path}: labels are {labels.dtype} {list(labels.shape)}, wanted one number or text each")
    return labeled_arrays(str(path), pixels, [str(label) for label in labels.tolist()])


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a .npz file; none is read whose header does not fit its size, and no object is unpickled."""
    try:
        with zipfile.ZipFile(plain_file(path, DataError)) as archive:
            return {
                member.filename.removesuffix(".npy"): _read_array(path, archive, member)
                for member in archive.infolist()
            }
    except (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile, NotImplementedError) as error:
        raise error if isinstance(error, DataError) else DataError(f"{path}: cannot be read: {error}") from None


def _read_array(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    where = f"{path}: {member.filename}"
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
        count = math.prod(shape)
        if dtype.hasobject:
            raise DataError(f"{where} holds Python objects, which are not read")
        if count * dtype.itemsize > min(MOST_NUMBERS, member.file_size):
            raise DataError(f"{where} says that it has {count:,} numbers, more than the file holds")
        values = np.frombuffer(file.read(count * dtype.itemsize), dtype=dtype)
        if len(values) != count:
            raise DataError(f"{where} is truncated")
    return values.reshape(shape[::-1]).T if fortran else values.reshape(shape)


def digits() -> LabeledImages:
    """The 1,797 handwritten digits of scikit-learn, 8 × 8 pixels, gray."""
    try:
        datasets = importlib.import_module("sklearn.datasets")
    except ModuleNotFoundError:
        why = "the built-in pictures (digits) need scikit-learn"
        raise MissingExtraError(f'{why}: pip install "glassformer[vision]"; or give data.path') from None
    found = datasets.load_digits()
    values: Float[np.ndarray, "count 8 8"] = found.images
    pixels = (values * (255 / HIGHEST)).round().astype(np.uint8)
    return labeled_arrays(DIGITS, pixels, [str(number) for number in found.target.tolist()])


def picture_bytes(picture: np.ndarray) -> np.ndarray:
    """A picture as unsigned bytes if it is floats from 0 to 1; anything else stays as it is."""
    if picture.dtype.kind != "f":
        return picture
    if not ((picture >= 0) & (picture <= 1)).all():
        raise DataError(f"the picture is {picture.dtype} {list(picture.shape)}, wanted numbers from 0 to 1, or uint8")
    return (picture * 255.0).round().astype(np.uint8)


def labeled_arrays(source: str, pixels: np.ndarray, labels: Sequence[str]) -> LabeledImages:
    """Pictures with their labels, if they belong together: [count, height, width] or with 1 or 3 channels after."""
    if pixels.dtype != np.uint8 or pixels.ndim not in (3, 4):
        what = f"pictures are {pixels.dtype} {list(pixels.shape)}"
        raise DataError(f"{source}: {what}, wanted uint8 [count, height, width] or [count, height, width, channels]")
    if 0 in pixels.shape[1:]:
        raise DataError(f"{source}: pictures have the shape {list(pixels.shape[1:])}, wanted at least one pixel")
    pixels = pixels[..., None] if pixels.ndim == 3 else pixels
    if pixels.shape[-1] not in (1, 3):
        raise DataError(
            f"{source}: pictures have the shape {list(pixels.shape[1:])}, wanted 1 or 3 channels at the end"
        )
    if len(pixels) != len(labels):
        raise DataError(f"{source}: has {len(pixels):,} pictures and {len(labels):,} labels, wanted the same number")
    if not len(pixels):
        raise DataError(f"{source}: is empty")
    return LabeledImages(pixels, tuple(labels), tuple(f"{source}:{i}" for i in range(len(pixels))))
