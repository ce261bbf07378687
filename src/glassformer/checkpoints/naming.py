"""Read a two-column table of tensor names both ways, strictly: nothing skipped, nothing left over."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from glassformer.errors import CheckpointError


@dataclass(frozen=True)
class Row:
    """One tensor under both names; several of ours may be one of theirs.

    `{i}` stands for a block's number, counted by the word in `per`. `turned` tensors are stored
    transposed; `joined` ones lie side by side along that axis of theirs. A row with no name of
    ours is a second name of theirs for a tensor that another row already carries.
    """

    ours: str | tuple[str, ...]
    theirs: str
    turned: bool = False
    joined: int = 0
    per: str = ""
    same_as: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Our names."""
        return (self.ours,) if isinstance(self.ours, str) else self.ours


def pair(ours: str, theirs: str, per: str = "", turned: bool = False) -> list[Row]:
    """Weight and bias of one part; `turned` for linear maps that are stored as [outputs, inputs]."""
    return [
        Row(f"{ours}.weight", f"{theirs}.weight", turned=turned, per=per),
        Row(f"{ours}.bias", f"{theirs}.bias", per=per),
    ]


def expand(table: Sequence[Row], counts: Mapping[str, int]) -> Iterator[Row]:
    """One row for each block."""
    for row in table:
        if not row.per:
            yield row
        for i in range(counts[row.per] if row.per else 0):
            ours = tuple(name.replace("{i}", str(i)) for name in row.names)
            yield replace(row, ours=ours, theirs=row.theirs.replace("{i}", str(i)))


def to_ours(rows: Sequence[Row], theirs: Mapping[str, Tensor], sizes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """Their tensors under our names; `sizes` are the shapes our model wants."""
    found: dict[str, Tensor] = {}
    used: set[str] = set()
    for row in rows:
        if row.same_as:
            used |= {row.theirs} & theirs.keys()
            if row.theirs in theirs and not torch.equal(theirs[row.theirs], theirs[row.same_as]):
                raise CheckpointError(f"{row.theirs} differs from {row.same_as}, but the model ties them")
            continue
        if row.theirs not in theirs:
            raise CheckpointError(f"the file has no tensor {row.theirs}, which {' and '.join(row.names)} needs")
        used.add(row.theirs)
        found |= _split(row, theirs[row.theirs], sizes)
    if unknown := sorted(theirs.keys() - used):
        raise CheckpointError(f"the file holds tensors this model has no place for: {', '.join(unknown[:5])}")
    if missing := sorted(sizes.keys() - found.keys()):
        raise CheckpointError(f"nothing in the file fills {', '.join(missing[:5])}")
    return found


def _split(row: Row, tensor: Tensor, sizes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    for name in row.names:
        if name not in sizes:
            raise CheckpointError(f"{row.theirs} would fill {name}, which the model does not have")
    ours = tensor.T if row.turned else tensor
    axis = 1 - row.joined if row.turned and tensor.dim() == 2 else row.joined
    parts = [ours] if len(row.names) == 1 else list(ours.split([sizes[name][axis] for name in row.names], axis))
    for name, part in zip(row.names, parts, strict=True):
        if part.shape != sizes[name]:
            wanted = list(sizes[name])
            raise CheckpointError(f"{row.theirs} has shape {list(tensor.shape)}, but {name} wants {wanted}")
    return dict(zip(row.names, parts, strict=True))


def to_theirs(rows: Sequence[Row], ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our tensors under their names; second names are left out, as their own files leave them out."""
    found: dict[str, Tensor] = {}
    for row in rows:
        if row.same_as:
            continue
        parts = [ours[name].T if row.turned else ours[name] for name in row.names]
        found[row.theirs] = (parts[0] if len(parts) == 1 else torch.cat(parts, row.joined)).contiguous()
    return found
