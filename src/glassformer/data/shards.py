"""A tokenized corpus in one file on disk: encoded once, verified, and memory-mapped."""

import fcntl
import hashlib
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, Protocol, runtime_checkable

import msgspec
import numpy as np
from jaxtyping import Integer

from glassformer import durable
from glassformer.errors import DataError

_FORMAT = 2
_LARGEST_SHORT = 2**16
_STALE = 3600  # seconds; a writer writes far more often
_YOUNG = 5  # seconds; a new file is locked far sooner
_SCRATCH = re.compile(r"\.[0-9a-f]{32}\.(tokens|json)\.[0-9a-f]{8}")
_LOG = logging.getLogger(__name__)


@runtime_checkable
class Encodes(Protocol):
    """The part of a `Tokenizer` that encodes a corpus."""

    @property
    def vocab_size(self) -> int:
        """The number of ids."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash that differs for every tokenizer that encodes differently."""
        ...

    def encode_stream(self, texts: Iterable[str]) -> Iterator[list[int]]:
        """The ids of a whole corpus, in portions."""
        ...


@dataclass(frozen=True)
class TokenShard:
    """A memory-mapped corpus of ids, with its number of documents and of bytes.

    `portions` are the numbers of tokens that were encoded at a time.
    """

    tokens: Integer[np.ndarray, " tokens"]
    documents: int
    text_bytes: int
    path: Path
    portions: tuple[int, ...]


class ShardNote(msgspec.Struct, frozen=True):
    """The small file beside a shard with its sizes and hash; it is written last."""

    dtype: Literal["<u2", "<u4"]
    tokens: int
    documents: int
    text_bytes: int
    sha256: str
    portions: tuple[int, ...]


@dataclass
class _Count:
    """Documents and bytes of texts that passed through, and a hash of them all."""

    documents: int = 0
    text_bytes: int = 0

    def __post_init__(self) -> None:
        self._hash = hashlib.sha256()

    def over(self, texts: Iterable[str]) -> Iterator[str]:
        for text in texts:
            try:
                data = text.encode()
            except UnicodeEncodeError as error:
                raise DataError(f"document {self.documents}: character {error.start} is not UTF-8") from None
            self.documents += 1
            self.text_bytes += len(data)
            self._hash.update(len(data).to_bytes(8, "little") + data)
            yield text

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


def token_shard(texts: Callable[[], Iterable[str]], tokenizer: Encodes, cache: Path | str) -> TokenShard:
    """The ids of a corpus, from the cache folder if this tokenizer has encoded this text before.

    `texts` returns the corpus from its beginning each time it is called: once to hash it, and once more to encode it.
    Each text ends with EOS where the tokenizer has it.
    """
    count = _Count()
    for _ in count.over(texts()):
        pass
    key = hashlib.sha256(f"{_FORMAT} {tokenizer.fingerprint} {count.digest}".encode()).hexdigest()[:32]
    path = Path(cache) / f"{key}.tokens"
    _sweep(path.parent)
    note = _verified(path)
    if note is None:
        note = _write_shard(path, texts, tokenizer, count)
    tokens = np.memmap(path, dtype=note.dtype, mode="r")
    return TokenShard(tokens, note.documents, note.text_bytes, path, note.portions)


def _verified(path: Path) -> ShardNote | None:
    """The note of a whole shard, or None if it has to be written."""
    beside = path.with_suffix(".json")
    if not beside.exists():
        return None
    try:
        note = msgspec.json.decode(beside.read_bytes(), type=ShardNote)
        size = np.dtype(note.dtype).itemsize * note.tokens
        with path.open("rb") as file:
            same_size = os.fstat(file.fileno()).st_size == size
            if same_size and hashlib.file_digest(file, "sha256").hexdigest() == note.sha256:
                return note
    except (OSError, msgspec.MsgspecError) as error:
        _LOG.warning("%s cannot be used and is written again: %s", path, error)
        return None
    _LOG.warning("%s was truncated or altered and is written again", path)
    return None


def _write_shard(path: Path, texts: Callable[[], Iterable[str]], tokenizer: Encodes, expected: _Count) -> ShardNote:
    dtype: Literal["<u2", "<u4"] = "<u2" if tokenizer.vocab_size <= _LARGEST_SHORT else "<u4"
    digest, count = hashlib.sha256(), _Count()
    portions: list[int] = []
    with _appearing(path) as file:
        for ids in tokenizer.encode_stream(count.over(texts())):
            data = np.asarray(ids, dtype=dtype).tobytes()
            digest.update(data)
            file.write(data)
            portions.append(len(ids))
        if not sum(portions):
            raise DataError("the texts have no tokens")
        if count.digest != expected.digest:
            raise DataError("the texts changed while they were read")
    tokens = sum(portions)
    note = ShardNote(dtype, tokens, count.documents, count.text_bytes, digest.hexdigest(), tuple(portions))
    with _appearing(path.with_suffix(".json")) as file:
        file.write(msgspec.json.encode(note))
    return note


@contextmanager
def _appearing(path: Path) -> Iterator[BinaryIO]:
    """A file to write that appears under its name whole or not at all."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        durable.make_folder(path.parent)
        with temporary.open("xb") as file:
            with suppress(OSError):  # a file system without locks: its age decides then
                fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed, also by a kill
            yield file
            file.flush()
            os.fsync(file.fileno())
            durable.move(temporary, path)  # while it is locked
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _sweep(folder: Path) -> None:
    """Delete the unfinished files of killed programs."""
    for left in folder.glob(".*"):
        if _SCRATCH.fullmatch(left.name):
            with suppress(OSError), left.open("rb") as file:
                if _is_abandoned(file):
                    left.unlink()


def _is_abandoned(file: BinaryIO) -> bool:
    """Whether no process writes to a file any more; a young one may not have been locked yet."""
    age = time.time() - os.fstat(file.fileno()).st_mtime
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return age > _STALE
    return age > _YOUNG
