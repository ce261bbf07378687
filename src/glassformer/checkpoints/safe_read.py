"""Read files that nobody vouches for: plain files alone, JSON without tricks, nothing that can run."""

import json
import math
import stat
from pathlib import Path

from glassformer.errors import CheckpointError, PathError

MOST_JSON = 16 * 2**20  # bytes; the index of the largest public model has a tenth of that
PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"}
_MAGIC = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"\x1f\x8b")


def plain_file(path: Path) -> Path:
    """The path of a file that can be read to its end; a pipe or a device cannot."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read: {_reason(error)}") from None
    if not stat.S_ISREG(mode):
        raise CheckpointError(f"{path}: is not a plain file")
    return path


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def is_pickle(path: Path) -> bool:
    """Whether a file begins as pickles, and the archives that hold them, begin."""
    with plain_file(path).open("rb") as file:
        return file.read(4).startswith(_MAGIC)


def pickle_refusal(path: Path) -> PathError:
    """Why a pickle is not read, and the one line that converts it."""
    target = path.with_name("model.safetensors")
    tensors = f"torch.load('{path}', weights_only=True, map_location='cpu').items()"
    line = f"save_file({{k: v.clone().contiguous() for k, v in {tensors}}}, '{target}')"
    return PathError(
        f"{path}: is a pickle, which can run code when it is opened, so it is not; if you trust where it comes from, "
        f'convert it: python -c "import torch; from safetensors.torch import save_file; {line}"'
    )


def read_json(path: Path) -> object:
    """What a JSON file holds: no name twice, no number that is none, no endless nesting."""
    size = plain_file(path).stat().st_size
    if size > MOST_JSON:
        raise CheckpointError(f"{path}: has {size:,} bytes, wanted at most {MOST_JSON:,}")
    try:
        return _parse(path.read_bytes(), str(path))
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {_reason(error)}") from None


def read_table(path: Path) -> dict[str, object]:
    """A table of names from a JSON file."""
    return _require_table(read_json(path), str(path))


def parse_table(text: bytes, where: str) -> dict[str, object]:
    """A table of names from JSON; `where` is what an error names."""
    return _require_table(_parse(text, where), where)


def _parse(text: bytes, where: str) -> object:
    try:
        return json.loads(
            text.decode("utf-8"), object_pairs_hook=_once, parse_float=_finite_number, parse_constant=_finite_number
        )
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{where}: is not JSON that can be trusted: {error}") from None


def _require_table(table: object, where: str) -> dict[str, object]:
    if not isinstance(table, dict):
        raise CheckpointError(f"{where}: holds a {type(table).__name__}, wanted a table of names")
    return table


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} is there twice")
    return table


def _finite_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number")
    return number
