"""Read a two-column table of tensor names both ways, strictly: nothing skipped, nothing left over."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from glassformer.checkpoints.tensor_files import TensorSource
from glassformer.equations.positions import sinusoidal_positions
from glassformer.errors import CheckpointError
from glassformer.layers.rotary import RopeScaling, Rotary
from glassformer.models.seq2seq import Seq2SeqConfig


def _are_places(table: Tensor, _model: nn.Module) -> bool:
    return torch.equal(table.flatten(), torch.arange(table.numel(), device=table.device))


def _is_causal(table: Tensor, _model: nn.Module) -> bool:
    return table.dim() >= 2 and torch.equal(table.bool().squeeze(), torch.ones_like(table).bool().tril().squeeze())


def _are_frequencies(table: Tensor, model: nn.Module) -> bool:
    """Those of the model, or those that they were before they were scaled: files have held either."""
    rotary = next(module for module in model.modules() if isinstance(module, Rotary))
    like = torch.empty(0)
    wanted = [scaling.frequencies(rotary.head_dim, rotary.theta, like) for scaling in (rotary.scaling, RopeScaling())]
    room = 1e-2 if table.element_size() < like.element_size() else 1e-4
    return any(table.shape == each.shape and torch.allclose(table.float(), each, rtol=room, atol=0) for each in wanted)


def _are_waves(table: Tensor, model: nn.Module) -> bool:
    config = model.config
    if not isinstance(config, Seq2SeqConfig) or table.shape != (config.context, config.dim):
        return False
    return torch.allclose(table.float(), sinusoidal_positions(*table.shape, layout="halves"), atol=1e-3)


# What tables that some files carry and no model of ours stores must look like.
DERIVED: dict[str, Callable[[Tensor, nn.Module], bool]] = {
    "places": _are_places,
    "causality": _is_causal,
    "frequencies": _are_frequencies,
    "waves": _are_waves,
    "one number": lambda table, _model: table.numel() == 1,
}


@dataclass(frozen=True)
class TensorMap:
    """One tensor under both names; several of ours may be one of theirs.

    `{i}` stands for a block's number, counted by the word in `per`. `turned` tensors are stored
    transposed, `lifted` ones with an axis of one before the others; `joined` ones lie side by side
    along that axis of theirs. One that is missing may be another one again, `or_else`.

    A row with no name of ours is a tensor that the model does without: `same_as` another one,
    `left_out` with a head that is not asked for, or `derived`, a table that the model works out itself.
    """

    ours: str | tuple[str, ...]
    theirs: str
    transposed: bool = False
    concatenated: int = 0
    unsqueezed: bool = False
    per: str = ""
    same_as: str = ""
    or_else: str = ""
    left_out: bool = False
    derived: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Our names."""
        return (self.ours,) if isinstance(self.ours, str) else self.ours


def pair(ours: str, theirs: str, per: str = "", transposed: bool = False) -> list[TensorMap]:
    """Weight and bias of one part; `turned` for linear maps that are stored as [outputs, inputs]."""
    return [
        TensorMap(f"{ours}.weight", f"{theirs}.weight", transposed=transposed, per=per),
        TensorMap(f"{ours}.bias", f"{theirs}.bias", per=per),
    ]


def without(rows: Sequence[TensorMap]) -> list[TensorMap]:
    """The same tensors as ones that a file may hold and the model does without."""
    return [replace(row, ours=(), left_out=True) for row in rows]


def expand(table: Sequence[TensorMap], counts: Mapping[str, int]) -> Iterator[TensorMap]:
    """One row for each block."""
    for row in table:
        if not row.per:
            yield row
        for i in range(counts[row.per] if row.per else 0):
            ours = tuple(name.replace("{i}", str(i)) for name in row.names)
            yield replace(row, ours=ours, theirs=row.theirs.replace("{i}", str(i)))


def as_in_file(rows: Sequence[TensorMap], present: Collection[str], base: str = "") -> list[TensorMap]:
    """The rows with the names that this file uses.

    Files of the bare model leave out the `base` that other names begin with, old files say gamma
    and beta for weight and bias, and a tensor with a second name may have been stored under that alone.
    """
    bare = base and not any(name.startswith(base) for name in present)

    def found(name: str) -> str:
        name = name.removeprefix(base) if bare else name
        old = name.removesuffix(".weight") + ".gamma" if name.endswith(".weight") else f"{name[:-4]}beta"
        return old if name not in present and old in present else name

    rows = [replace(row, theirs=row.or_else) if row.or_else and row.theirs not in present else row for row in rows]
    named = [replace(row, theirs=found(row.theirs), same_as=row.same_as and found(row.same_as)) for row in rows]
    second = {row.same_as: row.theirs for row in named if row.same_as and row.theirs in present}
    return [
        replace(row, theirs=second[row.theirs]) if row.theirs not in present and row.theirs in second else row
        for row in named
        if not (row.same_as and row.same_as not in present and second.get(row.same_as) == row.theirs)
    ]


def require_bijection(rows: Sequence[TensorMap], present: Collection[str], where: str) -> None:
    """Raise unless the file holds every tensor of the table and none besides."""
    for row in rows:
        if row.names and row.theirs not in present:
            raise CheckpointError(f"{where}: has no tensor {row.theirs}, which {' and '.join(row.names)} needs")
    if unknown := sorted(set(present) - {row.theirs for row in rows}):
        raise CheckpointError(f"{where}: holds tensors this model has no place for: {', '.join(unknown[:5])}")


def fill_model(
    model: nn.Module,
    rows: Sequence[TensorMap],
    source: TensorSource,
    where: str,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
) -> None:
    """Give a model that was built without memory its parameters, one tensor after another.

    Every name and shape is compared before the first number is read.
    """
    sizes = {name: parameter.shape for name, parameter in model.named_parameters()}
    for row in rows:
        if row.names:
            _require_fit(row, source.shapes[row.theirs], sizes, where)
    filled = [name for row in rows for name in row.names]
    if missing := sorted(sizes.keys() - set(filled)):
        raise CheckpointError(f"{where}: nothing in it fills {', '.join(missing[:5])}")
    dtype = source.dtype if dtype is None else dtype
    for row in rows:
        if row.names:
            for name, part in zip(row.names, _parts_of(row, source.read(row.theirs), sizes), strict=True):
                _set(model, name, part, device, dtype)
        elif row.same_as and row.theirs in source.shapes:
            if not torch.equal(source.read(row.theirs), source.read(row.same_as)):
                raise CheckpointError(f"{where}: {row.theirs} differs from {row.same_as}, but the model ties them")
        elif row.derived and row.theirs in source.shapes and not DERIVED[row.derived](source.read(row.theirs), model):
            raise CheckpointError(f"{where}: {row.theirs} is not the table of {row.derived} that the model works out")


def to_theirs(rows: Sequence[TensorMap], ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our tensors under their names; tensors that the model does without are left out, as their files do."""
    return {row.theirs: _put_together(row, ours) for row in rows if row.names}


def _put_together(row: TensorMap, ours: Mapping[str, Tensor]) -> Tensor:
    parts = [ours[name].T if row.transposed else ours[name] for name in row.names]
    whole = parts[0] if len(parts) == 1 else torch.cat(parts, row.concatenated)
    return (whole[None] if row.unsqueezed else whole).contiguous()


def _require_fit(row: TensorMap, shape: Sequence[int], sizes: Mapping[str, torch.Size], where: str) -> None:
    for name in row.names:
        if name not in sizes:
            raise CheckpointError(f"{where}: {row.theirs} would fill {name}, which the model does not have")
    wanted = [list(sizes[name]) for name in row.names]
    if row.transposed:
        wanted = [size[::-1] for size in wanted]
    whole = list(wanted[0])
    if len(wanted) > 1:
        whole[row.concatenated] = sum(size[row.concatenated] for size in wanted)
    whole = [1, *whole] if row.unsqueezed else whole
    if list(shape) != whole:
        raise CheckpointError(
            f"{where}: {row.theirs} has shape {list(shape)}, but {' and '.join(row.names)} wants {whole}"
        )


def _parts_of(row: TensorMap, tensor: Tensor, sizes: Mapping[str, torch.Size]) -> list[Tensor]:
    """What one of their tensors is to us, still windows onto it."""
    tensor = tensor[0] if row.unsqueezed else tensor
    if len(row.names) == 1:
        parts = [tensor]
    else:
        axis = len(sizes[row.names[0]]) - 1 - row.concatenated if row.transposed else row.concatenated
        parts = list(tensor.split([sizes[name][axis] for name in row.names], row.concatenated))
    return [part.T for part in parts] if row.transposed else parts


def _set(model: nn.Module, name: str, value: Tensor, device: torch.device | str, dtype: torch.dtype) -> None:
    """Make a copy of a value the parameter of this name, in memory of its own."""
    place, _, leaf = name.rpartition(".")
    fresh = torch.empty(value.shape, dtype=dtype, device=device).copy_(value)
    if value.is_floating_point() and torch.finfo(dtype).max < torch.finfo(value.dtype).max:
        _refuse_overflow(name, value, fresh)
    model.get_submodule(place).register_parameter(leaf, nn.Parameter(fresh))


def _refuse_overflow(name: str, value: Tensor, fresh: Tensor) -> None:
    """Raise where a finite number is too large for the type that it is to be stored in."""
    lost = value.isfinite() & ~fresh.isfinite().to(value.device)
    if bool(lost.any()):
        kind, most = str(fresh.dtype).removeprefix("torch."), torch.finfo(fresh.dtype).max
        large = float(value[lost].abs().max())
        raise CheckpointError(f"{name} holds {large:g}, wanted at most {most:g}, the largest {kind}; take bfloat16")
