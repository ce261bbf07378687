"""The device a run uses and how: type of numbers, compiled or not, and how fast it could go."""

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

import torch

from glassformer.data.batches import Batch
from glassformer.errors import ConfigError

MATRIX = {"cpu": 1024, "cuda": 8192}  # rows and columns of the product that tells how fast a device is
TRIES = 5
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Device:
    """Where a run computes; weights are float32 always, `bf16` is for what autocast finds safe."""

    device: torch.device = CPU
    bf16: bool = False
    compile: bool = False

    @property
    def waits(self) -> bool:
        """Whether looking at a number makes the program wait for the device to catch up."""
        return self.device.type != "cpu"

    def move(self, batch: Batch) -> Batch:
        """A batch on the device; the copy goes on while the program does."""
        if not self.waits:
            return batch
        return {name: value.pin_memory().to(self.device, non_blocking=True) for name, value in batch.items()}

    def autocast(self) -> AbstractContextManager[object]:
        """Products in bfloat16 where the run asks for it."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.bf16 else nullcontext()

    def peak(self) -> float:
        """Operations a second in a large matrix product, measured: what a run can be held against."""
        size = MATRIX[self.device.type]
        x = torch.ones(size, size, device=self.device, dtype=torch.bfloat16 if self.bf16 else torch.float32)
        return 2 * size**3 / min(self._timed(lambda: x @ x) for _ in range(TRIES))

    def _timed(self, work: Callable[[], object]) -> float:
        began = time.perf_counter()
        work()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began


def choose_device(device: str, precision: Literal["auto", "fp32", "bf16"], compiled: str) -> Device:
    """The hardware a run asks for; "auto" takes a GPU if there is one, and what the device is fast at."""
    place = _device(device)
    half = precision == "bf16" or (precision == "auto" and _fast_in_half(place))
    return Device(place, half, compiled == "yes" or (compiled == "auto" and place.type == "cuda"))


def _device(name: str) -> torch.device:
    if name == "auto":
        if not torch.cuda.is_available():
            return torch.device("cpu")
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))  # torchrun: one device for each process
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"device is {name!r}, wanted auto, cpu, cuda or cuda:1") from None
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device is {name!r}, wanted auto, cpu, cuda or cuda:1")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"device is {name!r}, and this machine has {torch.cuda.device_count()} CUDA devices")
    return device


def _fast_in_half(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    units = torch.cpu.get_capabilities()
    return bool(units.get("amx_bf16") or units.get("avx512_bf16"))
