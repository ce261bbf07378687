"""Read untrusted files: regular files of bounded size, strict JSON, and nothing that can run code."""

import json
import math
import stat
from pathlib import Path

from glassformer.errors import CheckpointError, GlassformerError, PathError

MOST_JSON = 16 * 2**20  # bytes; the index of the largest public model has a tenth of that
PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"}
_MAGIC = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"\x1f\x8b")


def plain_file(path: Path, error: type[GlassformerError] = CheckpointError) -> Path:
    """The path of a regular file; a pipe or a device might never end."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise PathError(f"{path}: no such file") from None
    except (OSError, ValueError) as reason:
        why = reason.strerror if isinstance(reason, OSError) else reason
        raise error(f"{path}: cannot be read: {why}") from None
    if not stat.S_ISREG(mode):
        raise PathError(f"{path}: is not a plain file")
    return path


def is_pickle(path: Path) -> bool:
    """Whether a file starts like a pickle, or like an archive that holds pickles."""
    with plain_file(path).open("rb") as file:
        return file.read(4).startswith(_MAGIC)


def pickle_refusal(path: Path) -> PathError:
    """The error for a pickle, with the one line that converts it."""
    target = path.with_name("model.safetensors")
    tensors = f"torch.load('{path}', weights_only=True, map_location='cpu').items()"
    line = f"save_file({{k: v.clone().contiguous() for k, v in {tensors}}}, '{target}')"
    return PathError(
        f"{path}: is a pickle, which can run code when opened, so it is not opened; if you trust its source, "
        f'convert it: python -c "import torch; from safetensors.torch import save_file; {line}"'
    )


def read_bytes(path: Path, most: int = MOST_JSON, error: type[GlassformerError] = CheckpointError) -> bytes:
    """The bytes of a file that is not too large."""
    size = plain_file(path, error).stat().st_size
    if size > most:
        raise error(f"{path}: has {size:,} bytes, wanted at most {most:,}")
    try:
        return path.read_bytes()
    except OSError as reason:
        raise error(f"{path}: cannot be read: {reason.strerror}") from None


def read_json(path: Path, most: int = MOST_JSON, error: type[GlassformerError] = CheckpointError) -> object:
    """The content of a JSON file: no name twice, finite numbers, bounded nesting."""
    return _parse(read_bytes(path, most, error), str(path), error)


def read_table(path: Path, most: int = MOST_JSON, error: type[GlassformerError] = CheckpointError) -> dict[str, object]:
    """A JSON file that holds a table of names."""
    return parse_table(read_bytes(path, most, error), str(path), error)


def parse_table(text: bytes, where: str, error: type[GlassformerError] = CheckpointError) -> dict[str, object]:
    """A table of names from JSON; `where` is what an error names."""
    table = _parse(text, where, error)
    if not isinstance(table, dict):
        raise error(f"{where}: holds a {type(table).__name__}, wanted a table of names")
    return table


def decode(text: bytes, where: str, error: type[GlassformerError] = CheckpointError) -> str:
    """UTF-8 as text."""
    try:
        return text.decode()
    except UnicodeDecodeError as reason:
        raise error(f"{where}: byte {reason.start} is not UTF-8") from None


def _parse(text: bytes, where: str, error: type[GlassformerError]) -> object:
    decoded = decode(text, where, error)
    try:
        return json.loads(decoded, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError) as reason:
        raise error(f"{where}: is not JSON: {reason}") from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)!r} is there twice")
    return table


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number
