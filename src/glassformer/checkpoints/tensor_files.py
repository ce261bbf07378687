"""Tensors in safetensors files: headers are checked first, then tensors are read one at a time."""

import functools
import json
import math
import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from glassformer.errors import CheckpointError
from glassformer.safe_read import PICKLES, is_pickle, parse_table, pickle_refusal, plain_file, read_table

MOST_HEADER = 8 * 2**20  # bytes; room for 80,000 tensors
MOST_NAME = 300
RENEW = 16 * 2**20
CONFIG_FILE, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
GENERATION = "generation_config.json"
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
CONFIG_TEXT = "glassformer.config"  # in a file's metadata: its config.json
CHECKSUMS = "glassformer.crc32"  # in a file's metadata: a checksum for each tensor
NUMBERS_SUFFIX = ".numbers.safetensors"  # of the tensors of a trace, which are not a model
NAME = re.compile(r"[\w.\-/:]+", re.ASCII)
SHARD = re.compile(r"[\w\-][\w.\-]*\.safetensors", re.ASCII)
TYPE_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
FLOATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


@dataclass(frozen=True)
class StoredTensor:
    """One tensor as the header of a file describes it."""

    path: Path
    dtype: str
    shape: tuple[int, ...]


class TensorSource(Protocol):
    """Where tensors come from: all shapes at once, one tensor at a time."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of every tensor by name."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """The dtype that holds every floating-point tensor without loss."""
        ...

    def read(self, name: str) -> Tensor:
        """One tensor, possibly a view of the mapped file: copy it before keeping it."""
        ...


class TensorFiles:
    """The tensors of one safetensors file, or of several that an index lists."""

    def __init__(self, paths: Mapping[str, Path] | Path) -> None:
        self.metadata: dict[str, str] = {}
        self._entries: dict[str, StoredTensor] = {}
        self._sums: dict[str, str] = {}
        self._open: tuple[Path, safe_open] | None = None
        self._seen = 0
        files = [paths] if isinstance(paths, Path) else sorted(set(paths.values()))
        for path in files:
            self._add(path)
        if not isinstance(paths, Path):
            self._require_index(paths)
        self.shapes = {name: entry.shape for name, entry in self._entries.items()}
        kinds = {FLOATS[entry.dtype] for entry in self._entries.values() if entry.dtype in FLOATS}
        self.dtype = functools.reduce(torch.promote_types, kinds) if kinds else torch.float32

    def read(self, name: str) -> Tensor:
        """One tensor as a view of its mapped file; a checksum that does not match is an error."""
        entry = self._entries[name]
        try:
            tensor = self._window(entry, name)
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{entry.path}: {name}: {error}") from None
        if name in self._sums and checksum(tensor) != self._sums[name]:
            raise CheckpointError(f"{entry.path}: {name} is not what was saved: its checksum does not match")
        return tensor

    def _window(self, entry: StoredTensor, name: str) -> Tensor:
        """A tensor through an open file, which is reopened now and then to release the pages that were read."""
        if self._open is None or self._open[0] != entry.path or self._seen > RENEW:
            self._open = entry.path, safe_open(entry.path, "pt")
            self._seen = 0
        self._seen += math.prod(entry.shape) * TYPE_BYTES[entry.dtype]
        return self._open[1].get_tensor(name)

    def _add(self, path: Path) -> None:
        header = _read_header(path)
        metadata = header.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
            raise CheckpointError(f"{path}: __metadata__ is not a table of strings")
        self.metadata |= metadata
        sums = parse_table(metadata[CHECKSUMS].encode(), f"{path}: checksums") if CHECKSUMS in metadata else {}
        if sums and sums.keys() != header.keys():
            odd = sorted(sums.keys() ^ header.keys())[0]
            raise CheckpointError(f"{path}: the checksums and the tensors differ: {odd!r}")
        self._sums |= {name: str(value) for name, value in sums.items()}
        for name, raw in header.items():
            if name in self._entries:
                raise CheckpointError(f"{path}: {name!r} is also in {self._entries[name].path}")
            self._entries[name] = _stored_tensor(path, name, raw)

    def _require_index(self, index: Mapping[str, Path]) -> None:
        for name, path in index.items():
            if name not in self._entries or self._entries[name].path != path:
                raise CheckpointError(f"{path}: has no tensor {name!r}, which the index says it has")
        if extra := sorted(self._entries.keys() - index.keys()):
            raise CheckpointError(f"{self._entries[extra[0]].path}: has {extra[0]!r}, which the index does not list")


def weight_files(folder: Path) -> Path | dict[str, Path]:
    """The file with the tensors of a model, or the file of each tensor by the index."""
    if (folder / WEIGHTS).exists():
        return folder / WEIGHTS
    index = folder / INDEX
    if not index.exists():
        for path in sorted(folder.iterdir()):
            if path.suffix in PICKLES:
                raise pickle_refusal(path)
        raise CheckpointError(f"{folder}: has neither {WEIGHTS} nor {INDEX}")
    table = read_table(index).get("weight_map")
    if not isinstance(table, dict) or not table:
        raise CheckpointError(f"{index}: has no weight_map from tensors to files")
    for name, file in table.items():
        if not isinstance(file, str) or not SHARD.fullmatch(file):
            raise CheckpointError(f"{index}: {name!r} is in {file!r}, wanted the plain name of a safetensors file")
    return {name: folder / str(file) for name, file in table.items()}


def checksum(tensor: Tensor) -> str:
    """A checksum of a tensor's bytes in the order they are stored."""
    flat = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
    return f"{zlib.crc32(flat.data):08x}"


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write one safetensors file with checksums; equal tensors make equal files.

    A disk failure is raised as the OSError that the library's own error hides.
    """
    sums = json.dumps({name: checksum(tensor) for name, tensor in tensors.items()})
    try:
        save_file(tensors, path, {"format": "pt", **metadata, CHECKSUMS: sums})
    except SafetensorError as error:
        found = re.search(r"os error (\d+)", str(error))
        if found is None:
            raise
        number = int(found[1])
        raise OSError(number, os.strerror(number), os.fspath(path)) from error
    with path.open("r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = parse_table(file.read(size), str(path))  # its metadata is in random order
        words = json.dumps(header, separators=(",", ":"), ensure_ascii=False, sort_keys=True).encode()
        if len(words) <= size:  # padded with blanks, as the format allows
            file.seek(8)
            file.write(words.ljust(size))
    path.chmod(0o644)


def _read_header(path: Path) -> dict[str, object]:
    """The header of a safetensors file; the library checks it again when a tensor is read."""
    size = plain_file(path).stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little") if size >= 8 else 0
        if not 2 <= length <= min(size - 8, MOST_HEADER):
            if is_pickle(path):  # not asked before: a header of 640 bytes starts like a pickle
                raise pickle_refusal(path)
            most = min(size - 8, MOST_HEADER)
            wanted = f"at most {most:,}" if length > most else "at least 2"
            header = f"its header would have {length:,} bytes, wanted {wanted}"
            why = header if most >= 2 else f"it has {size:,} bytes, too few for a header"
            raise CheckpointError(f"{path}: is not a safetensors file: {why}")
        header = parse_table(file.read(length), f"{path}: header")
    try:
        with safe_open(path, "pt"):
            return header
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: {error}") from None


def _stored_tensor(path: Path, name: str, raw: object) -> StoredTensor:
    if len(name) > MOST_NAME or not NAME.fullmatch(name) or ".." in name or name.startswith("/"):
        raise CheckpointError(f"{path}: {name[:MOST_NAME]!r} is not a valid tensor name")
    if not isinstance(raw, dict):
        raise CheckpointError(f"{path}: {name} is not described by a table")
    dtype, shape, offsets = (raw.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or dtype not in TYPE_BYTES:
        raise CheckpointError(f"{path}: {name} has dtype {json.dumps(dtype)}, wanted one of {', '.join(TYPE_BYTES)}")
    if not (isinstance(shape, list) and isinstance(offsets, list) and len(offsets) == 2):
        raise CheckpointError(f"{path}: {name} has no shape and offsets")
    size = math.prod(shape) * TYPE_BYTES[dtype]
    if size == 0 or size != offsets[1] - offsets[0]:
        raise CheckpointError(f"{path}: {name} has shape {shape} and dtype {dtype}, which are {size:,} bytes")
    return StoredTensor(path, dtype, tuple(shape))
