"""Pictures that a run can read: the built-in ones, and files that the page sends, which stay in memory."""

import tempfile
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

import msgspec
import numpy as np

from glassformer.data.image_arrays import digits
from glassformer.data.images import LabeledImages, Pixels, image_size, read_image
from glassformer.errors import DataError, MissingExtraError, ModelError

BUILT_IN = 10  # pictures to choose from
KEPT = 8  # pictures that were sent
SENT = "sent-"  # at the beginning of their names
MOST_SENT = 2**24  # pixels of a picture that is sent, said by its header before anything is decoded
LARGEST_SIDE = 512  # pixels that are kept of it
THUMBNAIL = 36  # pixels, in the list of pictures
LONGEST_LABEL = 24  # characters


class PictureChoice(msgspec.Struct, frozen=True):
    """A picture to choose: the text that a run names it by, its label, and its pixels, gray or red, green, blue."""

    text: str
    label: str
    rows: list[list[int]] | list[list[list[int]]]


@cache
def built_in_pictures() -> LabeledImages:
    """The built-in pictures."""
    return digits()


def built_in_picture(text: str) -> Pixels:
    """The pixels of a built-in picture by its number."""
    if not (text.isdecimal() and text.isascii() and int(text) < BUILT_IN):
        raise ModelError(f"there is no picture {text[:40]!r}, wanted 0 to {BUILT_IN - 1}, or choose a file")
    return built_in_pictures().pixels[int(text)]


@dataclass(frozen=True)
class SentPicture:
    """A picture that the page sent, with the name of its file."""

    label: str
    pixels: Pixels


class Pictures:
    """The built-in pictures, and the last few that were sent."""

    def __init__(self) -> None:
        self._sent: OrderedDict[str, SentPicture] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, data: bytes, label: str) -> PictureChoice:
        """Keep a picture file, or raise if it is not one or has too many pixels."""
        name = SENT + sha256(data).hexdigest()[:12]
        found = SentPicture(Path(label).name[:LONGEST_LABEL] or "your picture", _decoded(data))
        with self._lock:
            self._sent[name] = found
            self._sent.move_to_end(name)
            while len(self._sent) > KEPT:
                self._sent.popitem(last=False)
        return _choice(name, found)

    def pixels(self, text: str) -> Pixels:
        """The pixels of a picture by its number or by the name that it was given."""
        if not text.startswith(SENT):
            return built_in_picture(text)
        with self._lock:
            if text not in self._sent:
                raise ModelError(f"the picture {text[:40]} is not here any more: choose its file again")
            return self._sent[text].pixels

    def choices(self) -> list[PictureChoice]:
        """Every picture that there is."""
        try:
            found = built_in_pictures()
        except MissingExtraError:
            known = ()
        else:
            known = zip(found.labels, found.pixels[:BUILT_IN, :, :, 0].tolist(), strict=False)
        with self._lock:
            sent = [_choice(name, each) for name, each in self._sent.items()]
        return [*(PictureChoice(str(n), label, rows) for n, (label, rows) in enumerate(known)), *sent]


def _choice(name: str, picture: SentPicture) -> PictureChoice:
    height, width = picture.pixels.shape[:2]
    down, across = (np.linspace(0, side - 1, THUMBNAIL).round().astype(int) for side in (height, width))
    return PictureChoice(name, picture.label, picture.pixels[np.ix_(down, across)].tolist())


def _decoded(data: bytes) -> Pixels:
    """The pixels of a file in color, at most so large; its header is read before it is decoded."""
    with tempfile.TemporaryDirectory(prefix="glassformer-picture-") as folder:
        path = Path(folder) / "picture"
        path.write_bytes(data)
        try:
            height, width, _ = image_size(path)
            if height * width > MOST_SENT:
                raise DataError(f"{path}: has {width} × {height} pixels, wanted at most {MOST_SENT:,} in all")
            scale = min(1.0, LARGEST_SIDE / max(height, width))
            return read_image(path, (max(round(height * scale), 1), max(round(width * scale), 1)), 3)
        except DataError as error:
            said = str(error).replace(f"{path}: ", "the file ").replace(repr(str(path)), "it")
            raise DataError(said.replace(str(path), "it")) from None
