"""Data-parallel training: `torchrun` starts the processes, each computes on its rows of a batch.

With "ddp" (distributed data parallel) every process has the whole model; with "fsdp" (fully sharded data parallel,
FSDP2) each keeps a shard of every weight, gradient and moment, and gathers the rest while it computes.
"""

import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn.parallel import DistributedDataParallel

from glassformer.equation import MODE
from glassformer.equations.gradients import global_norm
from glassformer.training.device import Device

Strategy = Literal["ddp", "fsdp"]


@dataclass(frozen=True)
class ProcessGroup:
    """This process among those of a run; with one process every method is a no-op."""

    rank: int = 0
    world_size: int = 1
    strategy: Strategy = "ddp"

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and reports."""
        return self.rank == 0

    def wrap(self, module: nn.Module, device: Device) -> nn.Module:
        """The module as DDP or FSDP trains it."""
        if self.world_size == 1:
            return module
        if self.strategy == "fsdp":
            return _sharding().shard(module)
        devices = [device.device.index or 0] if device.device.type == "cuda" else None
        return DistributedDataParallel(module, device_ids=devices)

    @contextmanager
    def accumulate(self, module: nn.Module, last: bool) -> Iterator[None]:
        """Accumulate the gradients of a part of a batch; they are reduced once, with the last part."""
        if self.world_size > 1 and _sharding().reduce_gradients(module, last):
            yield
        elif isinstance(module, DistributedDataParallel) and not last:
            with module.no_sync():
                yield
        else:
            yield

    def sum(self, numbers: Tensor) -> Tensor:
        """The sum of a tensor over all processes, in place."""
        if self.world_size > 1:
            dist.all_reduce(numbers)
        return numbers

    def largest(self, number: int, device: torch.device) -> int:
        """The largest of a number over all processes."""
        there = torch.tensor(number, device=device)
        dist.all_reduce(there, dist.ReduceOp.MAX)
        return int(there)

    def norm(self, gradients: Sequence[Tensor]) -> Tensor:
        """The norm of all gradients together, sharded or not."""
        if self.world_size == 1 or self.strategy == "ddp":
            return global_norm(gradients)
        mine = global_norm([_sharding().local(gradient) for gradient in gradients])
        return self.sum(mine.square()).sqrt()

    def gather(self, text: str) -> list[str]:
        """The text of each process."""
        if self.world_size == 1:
            return [text]
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        size = self.largest(len(text.encode()), torch.device(device))
        data = torch.tensor(list(text.encode().ljust(size)), dtype=torch.uint8, device=device)
        parts = [torch.empty_like(data) for _ in range(self.world_size)]
        dist.all_gather(parts, data)
        return [bytes(part.tolist()).decode().rstrip() for part in parts]

    def wait(self) -> None:
        """Wait for all processes."""
        if self.world_size > 1:
            dist.barrier()


ALONE = ProcessGroup()


class _Gather(torch.autograd.Function):
    """Rows of all processes, each padded to the same number; a gradient goes back to the process of its row."""

    @staticmethod
    def forward(ctx: FunctionCtx, rows: Tensor) -> Tensor:
        """The rows of each process, [processes, rows, ...]."""
        parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, rows.contiguous())
        return torch.stack(parts)

    @staticmethod
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> Tensor:
        """The sum over all processes of the gradients of this one's rows."""
        (gradient,) = gradients
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient[dist.get_rank()]


def gathered_rows(*parts: Tensor) -> tuple[Tensor, ...]:
    """Rows of matrices from all processes, in the order of their ranks; gradients flow back to every process.

    With one process they are the rows themselves, and so they are on a tape or on the device "meta", where only the
    shapes or the equations of this process are asked for. The matrices go together, so that the order of the
    gradients is the same everywhere.
    """
    alone = not dist.is_initialized() or dist.get_world_size() == 1
    if alone or parts[0].is_meta or MODE.dispatcher is not None:
        return parts
    rows = torch.cat(parts, -1)
    counts = [torch.zeros(1, dtype=torch.int64, device=rows.device) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, torch.tensor([len(rows)], device=rows.device))
    sizes = [int(count) for count in counts]
    padding = rows.new_zeros(max(sizes) - len(rows), rows.shape[1])
    found = _Gather.apply(torch.cat([rows, padding]))
    whole = torch.cat([part[:size] for part, size in zip(found, sizes, strict=True)])
    return whole.split([part.shape[-1] for part in parts], -1)


def _sharding() -> ModuleType:
    """The module for weights in shards, which is imported when they are needed: it takes seconds."""
    return importlib.import_module("glassformer.training.sharding")


def is_shard(tensor: Tensor) -> bool:
    """Whether a tensor is this process's shard of a larger one."""
    return type(tensor) not in (Tensor, nn.Parameter) and _sharding().is_shard(tensor)


def unsharded(tensor: Tensor) -> Tensor:
    """A whole tensor, of which this process may hold a shard; every process has to take part."""
    return _sharding().whole(tensor) if is_shard(tensor) else tensor


def sharded_like(tensor: Tensor, like: Tensor) -> Tensor:
    """A whole tensor, sharded as another one is."""
    return _sharding().scattered_like(tensor, like) if is_shard(like) else tensor


def expected(strategy: Strategy) -> ProcessGroup:
    """This process among those `torchrun` started, before they are connected."""
    return ProcessGroup(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")), strategy)


@contextmanager
def process_group(strategy: Strategy, device: Device) -> Iterator[ProcessGroup]:
    """Connect the processes that `torchrun` started, if it did, while inside."""
    if "RANK" not in os.environ:
        yield ALONE
        return
    if device.device.type == "cuda":
        torch.cuda.set_device(device.device)
    dist.init_process_group("nccl" if device.device.type == "cuda" else "gloo")
    try:
        yield ProcessGroup(dist.get_rank(), dist.get_world_size(), strategy)
    finally:
        dist.destroy_process_group()
