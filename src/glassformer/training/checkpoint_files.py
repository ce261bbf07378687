"""The files of one checkpoint: a snapshot of training to bytes and back, every byte under a hash.

`model.safetensors`, `optimizer.safetensors` and `state.json` hold the snapshot; `manifest.json` has the size and hash
of each, and a hash of itself. Nothing is pickled.
"""

import errno
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from glassformer import durable
from glassformer.checkpoints.run_checkpoints import MANIFEST, OPTIMIZER
from glassformer.errors import BrokenCheckpointError, RunFolderError

FORMAT = 1  # of the files written here; a newer one is refused
MODEL, STATE = "model.safetensors", "state.json"
UNREADABLE = (errno.ENOENT, errno.EIO, errno.EISDIR, errno.ENOTDIR, errno.ELOOP)  # other errors, such as a lack of
# permission, do not mean that the checkpoint is broken

R = TypeVar("R", bound=msgspec.Struct)


@dataclass(frozen=True)
class Snapshot:
    """The whole state of training after a step: weights, optimizer, and the rest as plain values."""

    step: int
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, object]

    def __post_init__(self) -> None:
        if self.step < 0:
            raise RunFolderError(f"a snapshot of step {self.step}: steps are counted from 0")

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors."""
        tensors = (*self.model.values(), *self.optimizer.values())
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


class StoredFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The size and hash of a file of a checkpoint."""

    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of a checkpoint, and the length of the log when it was taken."""

    format: int
    step: int
    log: int
    files: dict[str, StoredFile]


class FormatNumber(msgspec.Struct, frozen=True):
    """The field that a manifest of any format has."""

    format: int


class Sealed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A small record together with its own hash."""

    content: msgspec.Raw
    sha256: str


def write_checkpoint(folder: Path, snapshot: Snapshot, log: int) -> None:
    """Write the files of a checkpoint into an empty folder, through to the disk, the manifest last."""
    files: dict[str, StoredFile] = {}

    def store(name: str, data: bytes) -> None:
        durable.write_new(folder / name, data)
        files[name] = StoredFile(len(data), _hash(data))

    what = f"step {snapshot.step}"
    store(MODEL, _tensor_bytes(snapshot.model, f"{what}: the model"))  # one by one: each is a copy of its tensors
    store(OPTIMIZER, _tensor_bytes(snapshot.optimizer, f"{what}: the optimizer"))
    store(STATE, json_bytes(snapshot.state, f"{what}: the state"))
    durable.write_new(folder / MANIFEST, seal(Manifest(FORMAT, snapshot.step, log, files)))
    durable.sync(folder)


def read_checkpoint(folder: Path, step: int, device: torch.device | str) -> Snapshot:
    """The snapshot in a folder, every byte of it verified."""
    files = read_manifest(folder, step).files
    model = _load_tensors(folder / MODEL, files[MODEL], device)
    optimizer = _load_tensors(folder / OPTIMIZER, files[OPTIMIZER], device)
    try:
        state = msgspec.json.decode(_read(folder / STATE, files[STATE]), type=dict[str, object])
    except msgspec.DecodeError as error:
        raise BrokenCheckpointError(f"{folder / STATE}: {error}") from error
    return Snapshot(step, model, optimizer, state)


def read_manifest(folder: Path, step: int) -> Manifest:
    """The manifest in the folder of a step, without verifying the files it lists."""
    path = folder / MANIFEST
    content = unseal(path, _read(path))
    number = decode(path, content, FormatNumber).format
    if number > FORMAT:
        raise RunFolderError(f"{path}: has format {number}, this version reads up to {FORMAT}; install a newer one")
    manifest = decode(path, content, Manifest)
    if manifest.step != step:
        raise BrokenCheckpointError(f"{path}: is of step {manifest.step}, the folder was renamed")
    if set(manifest.files) != {MODEL, OPTIMIZER, STATE}:
        listed = ", ".join(sorted(manifest.files))
        raise BrokenCheckpointError(f"{path}: lists {listed}, wanted the files of a checkpoint")
    return manifest


def seal(record: msgspec.Struct) -> bytes:
    """A record as JSON, with its own hash."""
    content = msgspec.json.encode(record)
    return msgspec.json.encode(Sealed(msgspec.Raw(content), _hash(content)))


def unseal(path: Path, data: bytes) -> bytes:
    """The JSON of the record that was sealed."""
    sealed = decode(path, data, Sealed)
    content = bytes(sealed.content)
    # There is only one way to write it, so that no altered byte can hide in a space or an escape.
    if sealed.sha256 != _hash(content) or msgspec.json.encode(sealed) != data:
        raise BrokenCheckpointError(f"{path}: was altered, its hash does not fit")
    return content


def decode(path: Path, data: bytes, kind: type[R]) -> R:
    """A record from JSON, or an error that names the file."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BrokenCheckpointError(f"{path}: is not what was written: {error}") from error


def json_bytes(value: Mapping[str, object], what: str) -> bytes:
    """Plain values as JSON that reads back as the same values; `what` names them in an error."""
    _require_plain(value, what)
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError as error:
        bad = error.object[error.start]
        raise RunFolderError(f"{what}: a text has {bad!r} in it, which no file can hold") from error


def _require_plain(value: object, name: str) -> None:
    """Refuse values that JSON would change silently: NaN to null, bytes to text, numbers as keys to text."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise RunFolderError(f"{name}: has the key {key!r}, wanted text")
            _require_plain(item, f"{name}: {key}")
    elif isinstance(value, (list, tuple)):
        for item in value:
            _require_plain(item, name)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise RunFolderError(f"{name}: is {value}, which JSON has no word for; leave it out or give None")
    elif not (value is None or isinstance(value, (str, int))):
        kind = type(value).__name__
        raise RunFolderError(f"{name}: is a {kind}, wanted plain numbers, text, lists and dictionaries")


def _tensor_bytes(tensors: Mapping[str, Tensor], what: str) -> bytes:
    """Tensors in the safetensors format, as other libraries read it."""
    ready: dict[str, Tensor] = {}
    seen: set[int] = set()
    name = ""
    try:
        for name, tensor in tensors.items():
            if name == "__metadata__":
                raise ValueError("the format keeps this name for itself")
            here = tensor.detach().to("cpu").contiguous()
            address = here.untyped_storage().data_ptr()
            ready[name] = here.clone() if address in seen else here  # tied tensors are stored under each name
            seen.add(address)
        name = ""
        return safetensors.torch.save(ready, metadata={"format": "pt"})
    except (RuntimeError, ValueError, LookupError, SafetensorError) as error:
        line = " ".join(str(error).split())
        raise RunFolderError(f"{what}: cannot be stored: {name + ': ' if name else ''}{line}") from error


def _load_tensors(path: Path, stored: StoredFile, device: torch.device | str) -> dict[str, Tensor]:
    try:
        tensors = safetensors.torch.load(_read(path, stored))
    except SafetensorError as error:
        raise BrokenCheckpointError(f"{path}: {error}") from error
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def _read(path: Path, stored: StoredFile | None = None) -> bytes:
    """A file's bytes, and an error if they are not those that were stored."""
    try:
        size = path.stat().st_size
        if stored is not None and size != stored.size:
            raise BrokenCheckpointError(f"{path}: has {size} bytes, wanted {stored.size}")
        data = path.read_bytes()
    except OSError as error:
        if error.errno not in UNREADABLE:
            raise
        raise BrokenCheckpointError(f"{path}: cannot be read: {error.strerror}") from error
    if stored is not None and _hash(data) != stored.sha256:
        raise BrokenCheckpointError(f"{path}: was altered, its hash does not fit")
    return data


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
