"""Word vectors in the text and binary formats of word2vec, GloVe and fastText."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from glassformer.checkpoints.hf_config import MOST_TOKENS, MOST_WIDTH
from glassformer.errors import CheckpointError
from glassformer.layers.basic import Embedding
from glassformer.safe_read import is_pickle, pickle_refusal, plain_file

MOST_LINE = 2**20  # bytes
MOST_WORD = 10_000
HEADING = re.compile(rb"(\d{1,10}) (\d{1,10}) *\r?\n")
FASTTEXT_MODEL = (793712314).to_bytes(4, "little")  # the first bytes of fastText's .bin


@dataclass(frozen=True)
class WordVectors:
    """Words and their vectors; `repeated` words occur again in the file, and their first vector counts."""

    words: tuple[str, ...]
    vectors: Tensor
    repeated: tuple[str, ...] = ()

    @cached_property
    def index(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    def __getitem__(self, word: str) -> Tensor:
        """The vector of a word."""
        if word not in self.index:
            raise CheckpointError(f"there is no vector for {word!r}")
        return self.vectors[self.index[word]]

    def embedding(self, frozen: bool = True) -> Embedding:
        """An embedding layer of the vectors, frozen or trainable; token ids are the rows."""
        layer = Embedding(*self.vectors.shape)
        layer.weight = torch.nn.Parameter(self.vectors.clone(), requires_grad=not frozen)
        return layer


def load_vectors(path: Path | str, most: int | None = None) -> WordVectors:
    """Read word vectors, or the first `most` of them; the format is detected from the file."""
    path = plain_file(Path(path))
    if is_pickle(path):
        raise pickle_refusal(path)
    with path.open("rb") as file:
        first = file.readline(MOST_LINE)
        heading = HEADING.fullmatch(first)
        if first.startswith(FASTTEXT_MODEL):
            raise CheckpointError(f"{path}: is a whole fastText model; load the .vec file that comes with it")
        if heading is None:
            file.seek(0)
            return _gather(path, _text_rows(path, file, None), most, None)
        count, dim = int(heading[1]), int(heading[2])
        size = path.stat().st_size
        if not (1 <= count <= MOST_TOKENS and 1 <= dim <= MOST_WIDTH and 2 * count * dim <= size):
            raise CheckpointError(f"{path}: says it has {count:,} vectors of {dim:,} numbers, but has {size:,} bytes")
        is_text = _next_is_text(file, dim)
        rows = _text_rows(path, file, dim) if is_text else _binary_rows(path, file, count, dim)
        return _gather(path, rows, most, count)


def _next_is_text(file: BinaryIO, dim: int) -> bool:
    """Whether the first line after the heading ends with as many numbers as a vector has."""
    start = file.tell()
    try:
        parts = file.readline(MOST_LINE).split()
        return len(parts) > dim and all(np.isfinite(float(part)) for part in parts[-dim:])
    except ValueError:
        return False
    finally:
        file.seek(start)


def _text_rows(path: Path, file: BinaryIO, dim: int | None) -> Iterator[tuple[str, np.ndarray]]:
    """A word, then its numbers, on each line; a word may contain spaces."""
    number = 0 if dim is None else 1
    while line := file.readline(MOST_LINE):
        number += 1
        parts = line.decode("utf-8", "replace").rstrip().split(" ")
        if parts == [""]:
            continue
        dim = len(parts) - 1 if dim is None else dim
        try:
            with np.errstate(over="ignore"):  # overflow is detected below
                row = np.array(parts[len(parts) - dim :], dtype=np.float32)
        except ValueError:
            row = np.empty(0)
        if dim < 1 or len(parts) <= dim or not np.isfinite(row).all() or len(row) != dim:
            raise CheckpointError(f"{path}: line {number} is not a word and {dim} numbers")
        yield " ".join(parts[:-dim]), row


def _binary_rows(path: Path, file: BinaryIO, count: int, dim: int) -> Iterator[tuple[str, np.ndarray]]:
    """A word, a space, then the bytes of its numbers."""
    for number in range(count):
        word = bytearray()
        while (letter := file.read(1)) not in (b" ", b"") and len(word) <= MOST_WORD:
            word += letter
        data = file.read(4 * dim)
        row = np.frombuffer(data, np.dtype("<f4")) if len(data) == 4 * dim else np.empty(0)
        if letter != b" " or len(row) != dim or not np.isfinite(row).all():
            raise CheckpointError(f"{path}: vector {number} of {count} is cut off or not a vector")
        yield bytes(word).lstrip(b"\n").decode("utf-8", "replace"), row


def _gather(path: Path, rows: Iterator[tuple[str, np.ndarray]], most: int | None, count: int | None) -> WordVectors:
    found: dict[str, np.ndarray] = {}
    repeated: list[str] = []
    for word, row in rows:
        if most is not None and len(found) >= most:
            break
        if word in found:
            repeated.append(word)
        else:
            found[word] = row.copy()
    if not found:
        raise CheckpointError(f"{path}: has no word vectors")
    if count is not None and most is None and len(found) + len(repeated) != count:
        raise CheckpointError(f"{path}: has {len(found) + len(repeated)} vectors, but its heading says {count}")
    return WordVectors(tuple(found), torch.from_numpy(np.stack(list(found.values()))), tuple(repeated))
