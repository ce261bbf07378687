"""How large a trace would be, found without making it."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.func import functional_call

from glassformer.errors import TapeError
from glassformer.recording import Tape
from glassformer.steps import Step

_MEMINFO = Path("/proc/meminfo")
_GIGA = 1e9


def sketch(model: nn.Module, inputs: Mapping[str, object]) -> Tape:
    """The tape of a run on shapes alone: nothing is computed and nothing is kept."""
    weights = {name: value.to("meta") for name, value in (*model.named_parameters(), *model.named_buffers())}
    shapes = {name: value.to("meta") if isinstance(value, Tensor) else value for name, value in inputs.items()}
    with torch.no_grad(), Tape() as tape:
        functional_call(model, weights, (), shapes, tie_weights=False)  # a block that is used twice is put back once
    return tape


def value_bytes(steps: Iterable[Step]) -> int:
    """Bytes that the results of these steps take; two views of one tensor are counted once."""
    storages = {
        tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes()
        for step in steps
        for tensor in step.output_tensors
    }
    return sum(storages.values())


def require_room(needed: int, device: torch.device, limit: int | None) -> None:
    """Raise when a trace would keep more than the limit, by default what is free."""
    room = free_memory(device) if limit is None else limit
    if room is not None and needed > room:
        raise TapeError(
            f"this trace would keep {needed / _GIGA:.2f} GB and there is room for {room / _GIGA:.2f} GB; "
            "narrow it to a layer or an equation, shorten the input, or leave the backward pass out"
        )


def free_memory(device: torch.device) -> int | None:
    """Bytes that can still be had on a device, or None where nobody says."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if _MEMINFO.exists():
        lines = (line.split() for line in _MEMINFO.read_text(encoding="ascii").splitlines())
        return next(int(words[1]) * 1024 for words in lines if words[0] == "MemAvailable:")
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 if hasattr(os, "sysconf") else None
