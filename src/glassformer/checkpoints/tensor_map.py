"""Map tensor names between the native and the Hugging Face format by a table, strictly: no tensor missing or extra."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from glassformer.checkpoints.tensor_files import TensorSource
from glassformer.errors import CheckpointError
from glassformer.layers.model import Model


@dataclass(frozen=True)
class Derived:
    """A table that some files hold and the model computes: its name in errors, and a test of its values."""

    name: str
    fits: Callable[[Tensor, Model], bool]


@dataclass(frozen=True)
class TensorMap:
    """One tensor under both names.

    `{i}` stands for the number of a layer; the configuration's field `per` says how many there are. `transposed`
    tensors are stored as [outputs, inputs], `unsqueezed` ones with a first axis of size one, and `reshaped` ones in
    this shape, as a kernel of a convolution or a scalar is. If a tensor is missing, that under `or_else` is used.

    A row without a native name is a tensor that the model does not store: `same_as` another one, `left_out` with a
    head that the model does not have, or `derived`, a table that the model computes.
    """

    native: str
    hf: str
    transposed: bool = False
    unsqueezed: bool = False
    reshaped: tuple[int, ...] | None = None
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
    """The table of the native format, where a tensor has the name of its parameter."""
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


def fill_model(
    model: Model,
    rows: Sequence[TensorMap],
    source: TensorSource,
    where: str,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
) -> Model:
    """Give a model on the meta device its parameters, one tensor at a time, and put it in evaluation mode.

    Every name and shape is compared before the first tensor is read.
    """
    _require_bijection(rows, source.shapes, {name: part.shape for name, part in model.named_parameters()}, where)
    dtype = source.dtype if dtype is None else dtype
    for row in rows:
        if row.native:
            value = source.read(row.hf)
            value = value[0] if row.unsqueezed else value
            if row.reshaped is not None:
                value = value.reshape(model.get_parameter(row.native).shape[:: -1 if row.transposed else 1])
            _set(model, row.native, value.T if row.transposed else value, device, dtype)
        elif row.same_as and row.hf in source.shapes:
            if not torch.equal(source.read(row.hf), source.read(row.same_as)):
                raise CheckpointError(f"{where}: {row.hf} differs from {row.same_as}, but the model ties them")
        elif row.derived and row.hf in source.shapes and not row.derived.fits(source.read(row.hf), model):
            raise CheckpointError(f"{where}: {row.hf} is not the table of {row.derived.name} the model computes")
    return model.eval()


def _require_bijection(
    rows: Sequence[TensorMap],
    present: Mapping[str, Sequence[int]],
    sizes: Mapping[str, Sequence[int]],
    where: str,
) -> None:
    """Raise unless the file holds every tensor of the table, with the shape of its parameter, and no others."""
    for row in rows:
        if row.native and row.hf not in present:
            raise CheckpointError(f"{where}: has no tensor {row.hf}, which {row.native} needs")
    if unknown := sorted(set(present) - {row.hf for row in rows}):
        raise CheckpointError(f"{where}: holds tensors this model has no place for: {', '.join(unknown[:5])}")
    for row in rows:
        if row.native and row.native not in sizes:
            raise CheckpointError(f"{where}: {row.hf} would fill {row.native}, which the model does not have")
        if row.native:
            wanted = list(sizes[row.native])[:: -1 if row.transposed else 1]
            wanted = [1, *wanted] if row.unsqueezed else wanted if row.reshaped is None else list(row.reshaped)
            if list(present[row.hf]) != wanted:
                shape = list(present[row.hf])
                raise CheckpointError(f"{where}: {row.hf} has shape {shape}, but {row.native} wants {wanted}")
    if missing := sorted(sizes.keys() - {row.native for row in rows}):
        raise CheckpointError(f"{where}: nothing in it fills {', '.join(missing[:5])}")


def to_hf(rows: Sequence[TensorMap], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters under the names and in the layout of the file; tensors the model does not store are left out."""
    tensors: dict[str, Tensor] = {}
    for row in rows:
        if row.native:
            value = state[row.native].T if row.transposed else state[row.native]
            value = value[None] if row.unsqueezed else value
            tensors[row.hf] = (value if row.reshaped is None else value.reshape(row.reshaped)).contiguous()
    return tensors


def _set(model: nn.Module, name: str, value: Tensor, device: torch.device | str, dtype: torch.dtype) -> None:
    """Make a copy of a value the parameter of this name; a finite number too large for the dtype is an error."""
    module, _, leaf = name.rpartition(".")
    fresh = torch.empty(value.shape, dtype=dtype, device=device).copy_(value)
    most = torch.finfo(dtype).max
    if value.is_floating_point() and most < torch.finfo(value.dtype).max:
        lost = value.isfinite() & ~fresh.isfinite().to(value.device)
        if bool(lost.any()):
            large, kind = float(value[lost].abs().max()), str(dtype).removeprefix("torch.")
            raise CheckpointError(f"{name} holds {large:g}, wanted at most {most:g}, the largest {kind}; take bfloat16")
    model.get_submodule(module).register_parameter(leaf, nn.Parameter(fresh))
