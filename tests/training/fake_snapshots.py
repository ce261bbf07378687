"""Snapshots to save, each told by its step, and the question whether one came back whole."""

import torch

from glassformer.training.run_folder import RunFolder, Snapshot


def moment(step: int, size: int = 8) -> Snapshot:
    """A snapshot whose every number follows from its step."""
    generator = torch.Generator().manual_seed(step)
    model = {"weight": torch.randn(size, generator=generator), "steps": torch.tensor(step)}
    optimizer = {"0/first": torch.randn(size, generator=generator), "0/second": torch.full((3,), float(step))}
    return Snapshot(step, model, optimizer, {"position": [step, 1], "random": f"{step:016x}", "loss": 1 / (step + 1)})


def same(one: Snapshot | None, other: Snapshot | None) -> bool:
    """Whether two snapshots agree in every bit."""
    if one is None or other is None:
        return one is other
    return (
        (one.step, one.state) == (other.step, other.state)
        and same_tensors(one.model, other.model)
        and same_tensors(one.optimizer, other.optimizer)
    )


def same_tensors(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Whether two dictionaries of tensors agree in names, kinds, shapes and bytes."""
    return one.keys() == other.keys() and all(
        (a.dtype, a.shape) == (b.dtype, b.shape)
        and bytes(a.detach().contiguous().reshape(-1).view(torch.uint8).numpy())
        == bytes(b.detach().contiguous().reshape(-1).view(torch.uint8).numpy())
        for a, b in ((one[name], other[name]) for name in one)
    )


def whole(folder: RunFolder, size: int = 8) -> list[int]:
    """Steps of the checkpoints that load and hold what was saved."""
    return [step for step in folder.steps() if same(folder.load(step), moment(step, size))]
