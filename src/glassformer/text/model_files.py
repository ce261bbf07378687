"""The JSON files beside a tokenizer: read with care, and what they say about using the tokenizer with its model."""

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import PathError, TokenizerError

MOST_BYTES = 200_000_000  # of a tokenizer.json; the largest public ones have 35 million
LONGEST_INPUT = 2**27  # tokens; files of models without a limit name numbers far beyond


@dataclass(frozen=True)
class ModelUse:
    """What the files of a model say about using its tokenizer, beyond what tokenizer.json can say.

    `decoder_start` is the id that a decoder's input begins with and `ends` are the ids that end a generated text,
    where these are other than the tokenizer's own; `max_length` is the longest input the model was trained on.
    """

    decoder_start: int | None = None
    ends: tuple[int, ...] = ()
    max_length: int | None = None


PLAIN_USE = ModelUse()


def read_use(folder: Path) -> ModelUse:
    """What the files of a model beside a tokenizer.json say about using it; the first that speaks of a thing counts."""
    found: dict[str, object] = {}
    for name in ("generation_config.json", "config.json", "tokenizer_config.json"):
        path = folder / name
        table = read_token_table(path) if path.exists() else {}
        found |= {key: value for key, value in table.items() if value is not None and key not in found}
    start, ends, length = (found.get(key) for key in ("decoder_start_token_id", "eos_token_id", "model_max_length"))
    listed = ends if isinstance(ends, list) else [ends]
    return ModelUse(
        decoder_start=start if type(start) is int and start >= 0 else None,
        ends=tuple(id for id in listed if type(id) is int and id >= 0),
        max_length=length if type(length) is int and 0 < length <= LONGEST_INPUT else None,
    )


def use_fields(use: ModelUse) -> dict[str, object]:
    """What `read_use` reads, for tokenizer_config.json, under the names that `transformers` has for it."""
    fields = {
        "decoder_start_token_id": use.decoder_start,
        "eos_token_id": list(use.ends) or None,
        "model_max_length": use.max_length,
    }
    return {name: value for name, value in fields.items() if value is not None}


def read_token_table(path: Path) -> dict[str, object]:
    """A JSON file that holds a table of names."""
    try:
        table = json.loads(read_whole(path))
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{path}: is not JSON: {error}") from None
    if not isinstance(table, dict):
        raise TokenizerError(f"{path}: is not a table of names")
    return table


def read_whole(path: Path) -> str:
    """The text of a file, if it is UTF-8 and not too large."""
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{path}: byte {error.start} is not UTF-8") from None


def read_bytes(path: Path) -> bytes:
    """The bytes of a plain file, if it is not too large; a pipe or a device would never end."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise PathError(f"{path}: is not a plain file")
        if status.st_size > MOST_BYTES:
            raise TokenizerError(f"{path}: has {status.st_size:,} bytes, wanted at most {MOST_BYTES:,}")
        return path.read_bytes()
    except FileNotFoundError:
        raise PathError(f"{path}: no such file") from None
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be read: {error.strerror}") from error


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a reader finds the old one or the new one, whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
