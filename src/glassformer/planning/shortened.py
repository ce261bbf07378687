"""A model with at most four of each run of equal blocks: what is recorded of them holds for all."""

import copy
from weakref import WeakKeyDictionary

import torch
from torch import nn

from glassformer.layers.block import Block
from glassformer.layers.lora import add_lora_like
from glassformer.layers.model import Model
from glassformer.planning.kernel_data import EqualBlocks

KEPT = 4  # blocks of a run: the first, one that stands for those in between, the one after it, and the last


_SHORTENED: WeakKeyDictionary[Model, tuple[Model, list[EqualBlocks]]] = WeakKeyDictionary()


def on_meta(model: Model) -> Model:
    """A copy on the device "meta", with the same parameters frozen."""
    with torch.device("meta"):
        same = model.rebuilt()
        add_lora_like(same, model)
    for weight, real in zip(same.parameters(), model.parameters(), strict=True):
        weight.requires_grad_(real.requires_grad)
    return same


def shortened(model: Model) -> tuple[Model, list[EqualBlocks]]:
    """A copy on the device "meta" with few blocks, and where they are; made once for each model."""
    if model not in _SHORTENED:
        same = on_meta(model)
        _SHORTENED[model] = same, shorten(same)
    return _SHORTENED[model]


def pretended(model: Model, dtype: torch.dtype | None = None) -> Model:
    """A copy of a model on "meta" with tensors of the mode that pretends now, of a dtype if one is given."""
    memo: dict[int, object] = {}
    for tensor in (*model.parameters(), *model.buffers()):
        made = torch.empty(tensor.shape, dtype=dtype if dtype and tensor.is_floating_point() else tensor.dtype)
        parameter = isinstance(tensor, nn.Parameter)
        memo[id(tensor)] = nn.Parameter(made, tensor.requires_grad) if parameter else made
    return copy.deepcopy(model, memo)


def shorten(model: nn.Module) -> list[EqualBlocks]:
    """Leave at most four of each run of equal blocks in a model, and say where they are."""
    runs: list[EqualBlocks] = []
    for path, part in list(model.named_modules()):
        if not isinstance(part, nn.ModuleList) or not all(isinstance(each, Block) for each in part):
            continue
        kept: list[nn.Module] = []
        for group in _equal(list(part)):
            left = group if len(group) <= KEPT else [*group[:2], *group[-2:]]
            if len(left) == KEPT:
                names = tuple(f"{path}.{len(kept) + each}" for each in range(KEPT))
                runs.append(EqualBlocks(path, names, len(kept), len(group)))
            kept += left
        part._modules = {str(number): each for number, each in enumerate(kept)}
    return runs


def _equal(blocks: list[nn.Module]) -> list[list[nn.Module]]:
    """Blocks in groups of neighbors that are equal but for the values of their weights."""
    groups: list[list[nn.Module]] = []
    looks: list[object] = []
    for block in blocks:
        look = _look(block)
        if not looks or look != looks[-1]:
            groups.append([])
            looks.append(look)
        groups[-1].append(block)
    return groups


def _look(block: nn.Module) -> object:
    """Everything that decides what a block computes: its parts, their settings and the shapes of their weights."""
    return [
        (
            name,
            type(part),
            [(key, value.shape) for key, value in part.named_parameters(recurse=False)],
            [(key, repr(value)) for key, value in vars(part).items() if not key.startswith("_")],
        )
        for name, part in block.named_modules()
    ]
