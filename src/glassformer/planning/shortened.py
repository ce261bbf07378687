"""A model with at most four of each run of equal blocks: what is recorded of them holds for all."""

from torch import nn

from glassformer.layers.block import Block
from glassformer.planning.kernel_data import EqualBlocks

KEPT = 4  # blocks of a run: the first, one that stands for those in between, the one after it, and the last


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
