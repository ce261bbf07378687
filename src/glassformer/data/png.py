"""Write pictures as PNG files, with nothing but the standard library; and several of them on one sheet."""

import struct
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from glassformer import durable
from glassformer.errors import DataError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOR_TYPES = {1: 0, 3: 2}  # gray, and red, green, blue
DEPTH = 8  # bits of a channel
WHITE = 255
SOFTWARE = b"Software\0glassformer"  # a text in the file that says who wrote it


def png_bytes(pixels: UInt8[np.ndarray, "height width channels"]) -> bytes:
    """A picture as the bytes of a PNG file; gray or color."""
    if pixels.ndim != 3 or pixels.dtype != np.uint8 or pixels.shape[-1] not in COLOR_TYPES or 0 in pixels.shape:
        what = f"{pixels.dtype} {list(pixels.shape)}"
        raise DataError(f"the picture is {what}, wanted uint8 [height, width, channels] with 1 or 3 channels")
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, DEPTH, COLOR_TYPES[channels], 0, 0, 0)
    rows = np.zeros((height, 1 + width * channels), dtype=np.uint8)  # each row begins with its filter, 0 for none
    rows[:, 1:] = pixels.reshape(height, -1)
    chunks = {b"IHDR": header, b"tEXt": SOFTWARE, b"IDAT": zlib.compress(rows.tobytes(), 9), b"IEND": b""}
    return SIGNATURE + b"".join(_chunk(kind, data) for kind, data in chunks.items())


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_png(path: Path | str, pixels: UInt8[np.ndarray, "height width channels"]) -> None:
    """Write a picture to a PNG file, whole or not at all."""
    data = png_bytes(pixels)
    with durable.explained(f"{path}: not written"):
        durable.replace(Path(path), data)


def contact_sheet(
    pixels: UInt8[np.ndarray, "count height width channels"], columns: int, scale: int = 1, gap: int = 2
) -> UInt8[np.ndarray, "height width channels"]:
    """Pictures in rows of so many, each pixel enlarged, with white gaps between them."""
    count, height, width, channels = pixels.shape
    if not count or columns < 1 or scale < 1:
        raise DataError(f"{count} pictures in {columns} columns, {scale} times as large, wanted at least one of each")
    large = pixels.repeat(scale, 1).repeat(scale, 2)
    rows, columns = -(-count // columns), min(columns, count)
    step_y, step_x = height * scale + gap, width * scale + gap
    sheet = np.full((rows * step_y + gap, columns * step_x + gap, channels), WHITE, dtype=np.uint8)
    for number, picture in enumerate(large):
        y, x = gap + number // columns * step_y, gap + number % columns * step_x
        sheet[y : y + height * scale, x : x + width * scale] = picture
    return sheet
