"""Tensors in a file: as much of each as fits, and all their numbers in one block."""

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from torch import Tensor

# Indices kept on each leading axis, and of rows and columns: the first pair with which everything fits.
PARTS = (
    (256, 4096), (64, 1024), (64, 256), (32, 128), (16, 64), (12, 32),
    (4, 32), (2, 32), (1, 32), (1, 16), (1, 8), (1, 4),
)  # fmt: skip


class StoredPart(msgspec.Struct, frozen=True):
    """A tensor in a file: the part that is there, the whole shape, and where its numbers begin."""

    shape: list[int]
    whole: list[int]
    start: int


def fitting(tensors: Sequence[Tensor], most: int) -> dict[int, tuple[int, int]]:
    """For each tensor, by id, the pair of `PARTS` with which all of them have at most `most` numbers."""
    sizes = ((pair, sum(math.prod(_part(tensor.shape, *pair)) for tensor in tensors)) for pair in PARTS)
    chosen = next((pair for pair, size in sizes if size <= most), PARTS[-1])
    return {id(tensor): chosen for tensor in tensors}


def count_of(tensors: Sequence[Tensor], parts: Mapping[int, tuple[int, int]]) -> int:
    """How many numbers of these tensors are kept."""
    return sum(math.prod(_part(tensor.shape, *parts[id(tensor)])) for tensor in tensors)


def store(tensors: Sequence[Tensor], parts: Mapping[int, tuple[int, int]]) -> tuple[list[StoredPart], bytes]:
    """The part kept of each tensor, and their numbers in float32: the first byte of all, then the second, and so on."""
    stored: list[StoredPart] = []
    blocks: list[np.ndarray] = [np.zeros(0, "<f4")]
    start = 0
    for tensor in tensors:
        shape = _part(tensor.shape, *parts[id(tensor)])
        kept = tensor.detach()[tuple(slice(n) for n in shape)].float().cpu().contiguous()
        stored.append(StoredPart(list(shape), list(tensor.shape), start))
        blocks.append(kept.numpy().astype("<f4").reshape(-1))
        start += kept.numel()
    planes = np.concatenate(blocks).view(np.uint8).reshape(-1, 4).T  # exponents beside exponents compress better
    return stored, planes.tobytes()


def _part(shape: Sequence[int], leading: int, side: int) -> tuple[int, ...]:
    return tuple(min(n, leading if axis < len(shape) - 2 else side) for axis, n in enumerate(shape))
