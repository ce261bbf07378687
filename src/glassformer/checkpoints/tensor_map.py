"""Read a two-column table of tensor names both ways, strictly: nothing skipped, nothing left over."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from glassformer.checkpoints.tensor_files import TensorSource
from glassformer.errors import CheckpointError
from glassformer.layers.model import Model


@dataclass(frozen=True)
class Derived:
    """A table that some files carry and the model computes: its name in errors, and what it must look like."""

    name: str
    fits: Callable[[Tensor, Model], bool]


@dataclass(frozen=True)
class TensorMap:
    """One tensor under both names.

    `{i}` stands for the number of a layer; the configuration's field `per` says how many there are. `transposed`
    tensors are stored as [outputs, inputs], `unsqueezed` ones with a first axis of size one. If a tensor is missing,
    the one under `or_else` takes its place.

    A row without a name of ours is a tensor that the model does not store: `same_as` another one, `left_out` with a
    head that the model does not have, or `derived`, a table that the model computes.
    """

    native: str
    hf: str
    transposed: bool = False
    unsqueezed: bool = False
    per: str = ""
    same_as: str = ""
    or_else: str = ""
    left_out: bool = False
    derived: Derived | None = None


def parts(
    names: Mapping[str, str],
    prefixes: tuple[str, str] = ("", ""),
    per: str = "",
    tensors: Sequence[str] = ("weight", "bias"),
    transposed: bool = True,
) -> list[TensorMap]:
    """Weight and bias of each part; matrices are stored as [outputs, inputs] unless `transposed` is false."""
    return [
        TensorMap(
            f"{prefixes[0]}{native}.{tensor}",
            f"{prefixes[1]}{hf}.{tensor}",
            transposed=transposed and tensor == "weight" and "norm" not in f"{native} {hf}".lower(),
            per=per,
        )
        for native, hf in names.items()
        for tensor in tensors
    ]


def native_rows(model: Model) -> list[TensorMap]:
    """The table of our own layout, where each tensor has our name."""
    return [TensorMap(name, name) for name, _ in model.named_parameters()]


def without(rows: Sequence[TensorMap]) -> list[TensorMap]:
    """The same tensors as ones that a file may hold and the model does not use."""
    return [replace(row, native="", left_out=True) for row in rows]


def expand(table: Sequence[TensorMap], counts: Mapping[str, object]) -> Iterator[TensorMap]:
    """One row for each layer."""
    for row in table:
        count = counts.get(row.per)
        if not isinstance(count, int):
            yield row
        else:
            for i in map(str, range(count)):
                yield replace(row, native=row.native.replace("{i}", i), hf=row.hf.replace("{i}", i))


def as_in_file(rows: Sequence[TensorMap], present: Collection[str], base: str = "") -> list[TensorMap]:
    """The rows under the names that this file uses.

    Files of the model without a head leave out the `base` that other names begin with, old files say gamma and beta
    for weight and bias, and a tensor with a second name may be stored under that name alone.
    """
    bare = base and not any(name.startswith(base) for name in present)

    def found(name: str) -> str:
        name = name.removeprefix(base) if bare else name
        old = name.removesuffix(".weight") + ".gamma" if name.endswith(".weight") else f"{name[:-4]}beta"
        return old if name not in present and old in present else name

    rows = [replace(row, hf=row.or_else) if row.or_else and row.hf not in present else row for row in rows]
    named = [replace(row, hf=found(row.hf), same_as=row.same_as and found(row.same_as)) for row in rows]
    second = {row.same_as: row.hf for row in named if row.same_as and row.hf in present}
    return [
        replace(row, hf=second[row.hf]) if row.hf not in present and row.hf in second else row
        for row in named
        if not (row.same_as and row.same_as not in present and second.get(row.same_as) == row.hf)
    ]


def require_bijection(rows: Sequence[TensorMap], present: Collection[str], where: str) -> None:
    """Raise unless the file holds every tensor of the table and none besides."""
    for row in rows:
        if row.native and row.hf not in present:
            raise CheckpointError(f"{where}: has no tensor {row.hf}, which {row.native} needs")
    if unknown := sorted(set(present) - {row.hf for row in rows}):
        raise CheckpointError(f"{where}: holds tensors this model has no place for: {', '.join(unknown[:5])}")


def fill_model(
    model: Model,
    rows: Sequence[TensorMap],
    source: TensorSource,
    where: str,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
) -> None:
    """Give a model on the meta device its parameters, one tensor at a time.

    Every name and shape is compared before the first number is read.
    """
    sizes = {name: parameter.shape for name, parameter in model.named_parameters()}
    for row in rows:
        if row.native:
            _require_fit(row, source.shapes[row.hf], sizes, where)
    if missing := sorted(sizes.keys() - {row.native for row in rows}):
        raise CheckpointError(f"{where}: nothing in it fills {', '.join(missing[:5])}")
    dtype = source.dtype if dtype is None else dtype
    for row in rows:
        if row.native:
            value = source.read(row.hf)
            value = value[0] if row.unsqueezed else value
            _set(model, row.native, value.T if row.transposed else value, device, dtype)
        elif row.same_as and row.hf in source.shapes:
            if not torch.equal(source.read(row.hf), source.read(row.same_as)):
                raise CheckpointError(f"{where}: {row.hf} differs from {row.same_as}, but the model ties them")
        elif row.derived and row.hf in source.shapes and not row.derived.fits(source.read(row.hf), model):
            raise CheckpointError(f"{where}: {row.hf} is not the table of {row.derived.name} the model computes")


def to_hf(rows: Sequence[TensorMap], ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our tensors under their names; tensors that the model does not store are left out, as in their files."""
    return {row.hf: _as_stored(row, ours[row.native]) for row in rows if row.native}


def _as_stored(row: TensorMap, value: Tensor) -> Tensor:
    value = value.T if row.transposed else value
    return (value[None] if row.unsqueezed else value).contiguous()


def _require_fit(row: TensorMap, shape: Sequence[int], sizes: Mapping[str, torch.Size], where: str) -> None:
    if row.native not in sizes:
        raise CheckpointError(f"{where}: {row.hf} would fill {row.native}, which the model does not have")
    wanted = list(sizes[row.native])[:: -1 if row.transposed else 1]
    wanted = [1, *wanted] if row.unsqueezed else wanted
    if list(shape) != wanted:
        raise CheckpointError(f"{where}: {row.hf} has shape {list(shape)}, but {row.native} wants {wanted}")


def _set(model: nn.Module, name: str, value: Tensor, device: torch.device | str, dtype: torch.dtype) -> None:
    """Make a copy of a value the parameter of this name."""
    module, _, leaf = name.rpartition(".")
    fresh = torch.empty(value.shape, dtype=dtype, device=device).copy_(value)
    if value.is_floating_point() and torch.finfo(dtype).max < torch.finfo(value.dtype).max:
        _refuse_overflow(name, value, fresh)
    model.get_submodule(module).register_parameter(leaf, nn.Parameter(fresh))


def _refuse_overflow(name: str, value: Tensor, fresh: Tensor) -> None:
    """Raise where a finite number is too large for the dtype that it is to be stored in."""
    lost = value.isfinite() & ~fresh.isfinite().to(value.device)
    if bool(lost.any()):
        kind, most = str(fresh.dtype).removeprefix("torch."), torch.finfo(fresh.dtype).max
        large = float(value[lost].abs().max())
        raise CheckpointError(f"{name} holds {large:g}, wanted at most {most:g}, the largest {kind}; take bfloat16")
