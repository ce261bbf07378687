"""Word vectors in the text and binary formats of word2vec, GloVe and fastText."""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import NoneType
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from glassformer import durable
from glassformer.checkpoints.hf_config import MOST_TOKENS, MOST_WIDTH
from glassformer.equations.similarity import analogy, nearest, normalize
from glassformer.errors import BAD_USE, CheckpointError, ModelError, require_type
from glassformer.layers.basic import Embedding
from glassformer.safe_read import is_pickle, pickle_refusal, plain_file

MOST_LINE = 2**20  # bytes
MOST_WORD = 10_000
MOST_HEADING = 30  # bytes
HEADING = re.compile(rb"(\d{1,10}) (\d{1,10}) *\r?\n")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # with which some editors begin a text in UTF-8
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
FASTTEXT_MODEL = (793712314).to_bytes(4, "little")  # the first bytes of fastText's .bin


class UnknownWordError(CheckpointError):
    """A word has no vector."""

    status = BAD_USE


@dataclass(frozen=True)
class Neighbor:
    """A word or a text, and the cosine of its vector with that of a query."""

    text: str
    cosine: float


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

    def __contains__(self, word: str) -> bool:
        return word in self.index or word.lower() in self.index

    def __getitem__(self, word: str) -> Tensor:
        """The vector of a word."""
        return self.vectors[self.row(word)]

    def row(self, word: str) -> int:
        """The row of a word as it is written, or else of the same word in lower case."""
        found = self.index.get(word, self.index.get(word.lower()))
        if found is None:
            near = nearest_spellings(word, self.words)
            hint = f"; did you mean {' or '.join(near)}?" if near else f" among {len(self.words):,} words"
            raise UnknownWordError(f"there is no vector for {word!r}{hint}")
        return found

    @cached_property
    def directions(self) -> Tensor:
        """The vectors scaled to length one."""
        return normalize(self.vectors)

    def similar(self, word: str | Tensor, top_k: int = 10) -> list[Neighbor]:
        """The words whose vectors have the largest cosine with that of a word, itself left out, or with a vector."""
        if isinstance(word, Tensor):
            return self._nearest(word, (), top_k)
        return self._nearest(self[word], [self.row(word)], top_k)

    def analogy(self, word: str, minus: str, plus: str, top_k: int = 10) -> list[Neighbor]:
        """Complete "king is to man as … is to woman" by king − man + woman, on vectors of length one (3CosAdd).

        The three words of the question are left out (Mikolov et al., 2013).
        """
        rows = [self.row(each) for each in (word, minus, plus)]
        king, man, woman = self.directions[rows]
        return self._nearest(analogy(man, king, woman), rows, top_k)

    def _nearest(self, query: Tensor, left_out: Sequence[int], top_k: int) -> list[Neighbor]:
        require_type(ModelError, "top_k", top_k, int, "a whole number")
        if top_k < 1:
            raise ModelError(f"top_k is {top_k}, wanted at least 1")
        if query.shape != self.vectors.shape[1:]:
            raise ModelError(f"the vector has shape {list(query.shape)}, wanted [{self.vectors.shape[1]}]")
        rows, cosines = nearest(normalize(query.to(self.directions)), self.directions, len(self.words))
        found = zip(rows.tolist(), cosines.tolist(), strict=True)
        others = (Neighbor(self.words[row], cosine) for row, cosine in found if row not in left_out)
        return list(islice(others, top_k))

    def save(self, path: Path | str) -> None:
        """Write the vectors as word2vec's text format, which other tools read, and `load_vectors` too."""
        lines = [f"{len(self.words)} {self.vectors.shape[1]}"]
        rows = zip(self.words, self.vectors.tolist(), strict=True)
        lines += [f"{word} {' '.join(f'{x:.9g}' for x in row)}" for word, row in rows]
        durable.replace(Path(path), ("\n".join(lines) + "\n").encode())

    def embedding(self, frozen: bool = True) -> Embedding:
        """An embedding layer of the vectors, frozen or trainable; token ids are the rows."""
        layer = Embedding(*self.vectors.shape)
        layer.weight = torch.nn.Parameter(self.vectors.clone(), requires_grad=not frozen)
        return layer


def nearest_spellings(word: str, words: Sequence[str]) -> list[str]:
    """Up to three words spelled much like an unknown one; only those that begin or end like it are compared."""
    word = word.lower()
    sized = (each for each in words if abs(len(each) - len(word)) <= 2)
    likely = [each for each in sized if each[:1] == word[:1] or each[-3:] == word[-3:]]
    return difflib.get_close_matches(word, likely, cutoff=0.7)


def is_vectors_file(path: Path | str) -> bool:
    """Whether a path looks like a file of word vectors: by its ending, or by the heading of word2vec's formats."""
    path = Path(path)
    if not path.is_file():
        return False
    if path.suffix in (".txt", ".vec"):
        return True
    with path.open("rb") as file:
        first = file.readline(MOST_HEADING + len(BYTE_ORDER_MARK)).removeprefix(BYTE_ORDER_MARK)
    return HEADING.fullmatch(first) is not None


def load_vectors(path: Path | str, most: int | None = None) -> WordVectors:
    """Read word vectors, or the first `most` of them; the format is detected from the file."""
    path = plain_file(Path(path))
    require_type(ModelError, "most", most, (int, NoneType), "a whole number")
    if most is not None and most < 1:
        raise ModelError(f"most is {most}, wanted at least 1")
    if is_pickle(path):
        raise pickle_refusal(path)
    with path.open("rb") as file:
        read = file.readline(MOST_LINE)
        first = read.removeprefix(BYTE_ORDER_MARK)
        heading = HEADING.fullmatch(first)
        if first.startswith(FASTTEXT_MODEL):
            raise CheckpointError(f"{path}: is a whole fastText model; load the .vec file that comes with it")
        if heading is None:
            if not _is_text(first):
                raise CheckpointError(f"{path}: is not a text file of word vectors")
            file.seek(len(read) - len(first))
            return _gather(path, _text_rows(path, file, None), most, None)
        count, dim = int(heading[1]), int(heading[2])
        size = path.stat().st_size
        if not (1 <= count <= MOST_TOKENS and 1 <= dim <= MOST_WIDTH and 2 * count * dim <= size):
            raise CheckpointError(f"{path}: says it has {count:,} vectors of {dim:,} numbers, but has {size:,} bytes")
        is_text = _next_is_text(file, dim)
        rows = _text_rows(path, file, dim) if is_text else _binary_rows(path, file, count, dim)
        return _gather(path, rows, most, count)


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in line


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
    number, source = (0, "the first line") if dim is None else (1, "the heading")
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
        if len(parts) > dim + 1 and NUMBER.fullmatch(parts[-dim - 1]):
            raise CheckpointError(f"{path}: line {number} has more than {dim} numbers, the dimension of {source}")
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
