"""The device of a run, its precision, whether the model is compiled, and its peak speed."""

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import torch

from glassformer.data.batches import Batch
from glassformer.errors import ConfigError
from glassformer.onednn import cpu_capabilities
from glassformer.torch_private import has_scaled_mm

if TYPE_CHECKING:
    from glassformer.training.settings import RunSettings

MATRIX = {"cpu": 1024, "cuda": 8192}  # size of the matrix product that measures the peak
TRIES = 5
CPU = torch.device("cpu")
Precision = Literal["auto", "float32", "bfloat16", "float8"]


@dataclass(frozen=True)
class Device:
    """A device and how it is used; weights are always float32, `bf16` turns autocast on.

    With `activation_checkpointing` blocks compute their activations again in the backward pass; with `float8` linear
    layers inside blocks multiply 8-bit floats.
    """

    device: torch.device = CPU
    bf16: bool = False
    compile: bool | None = False  # None: where the run is long enough
    activation_checkpointing: bool = False
    float8: bool = False

    @property
    def precision(self) -> Literal["float32", "bfloat16", "float8"]:
        """The precision of its products, as `run.precision` names it."""
        return "float8" if self.float8 else "bfloat16" if self.bf16 else "float32"

    @property
    def asynchronous(self) -> bool:
        """Whether reading a value on the host waits for the device to catch up."""
        return self.device.type != "cpu"

    @property
    def graphs(self) -> bool:
        """Whether whole steps are captured as CUDA graphs."""
        return self.device.type == "cuda"

    def move(self, batch: Batch) -> Batch:
        """A batch on the device, copied asynchronously."""
        if not self.asynchronous:
            return batch
        return {name: value.to(self.device, non_blocking=True) for name, value in self.pinned(batch).items()}

    def pinned(self, batch: Batch) -> Batch:
        """A batch in memory that a device copies from asynchronously."""
        return {name: value.contiguous().pin_memory() for name, value in batch.items()}  # expanded ones cannot be

    def autocast(self) -> AbstractContextManager[object]:
        """Autocast to bfloat16 where the run asks for it."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.bf16 else nullcontext()

    def peak(self) -> float:
        """Operations per second of a large matrix product, measured: the peak that a run can reach."""
        size = MATRIX[self.device.type]
        x = torch.ones(size, size, device=self.device, dtype=torch.bfloat16 if self.bf16 else torch.float32)
        return 2 * size**3 / min(self.timed(lambda: x @ x) for _ in range(TRIES))

    def timed(self, work: Callable[[], object]) -> float:
        """Seconds that some work takes on the device."""
        began = time.perf_counter()
        work()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began


def choose_device(
    device: str, precision: Precision, compiled: str, report: Callable[[str], None] = lambda text: None
) -> Device:
    """The device a run asks for; "auto": a GPU if there is one, bfloat16 where it is fast, long runs compiled.

    A device that cannot multiply 8-bit floats fast takes what "auto" would, and `report` says so.
    """
    found = _device(device)
    float8 = precision == "float8" and found.type == "cuda" and has_scaled_mm(found.type, found.index)
    bf16 = float8 or precision == "bfloat16" or (precision in ("auto", "float8") and _fast_in_bf16(found))
    automatic = None if found.type == "cuda" else False
    chosen = Device(found, bf16, automatic if compiled == "auto" else compiled == "yes", float8=float8)
    if precision == "float8" and not float8:
        needs = "float8 needs a GPU of compute capability 8.9 or more"
        report(f"run.precision is float8, and {found} computes in {chosen.precision} instead: {needs}")
    return chosen


def run_device(run: "RunSettings", report: Callable[[str], None] = lambda text: None) -> Device:
    """The device that settings ask for, and how it is used."""
    chosen = choose_device(run.device, run.precision, run.compile, report)
    return replace(chosen, activation_checkpointing=run.activation_checkpointing)


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


def _fast_in_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    units = cpu_capabilities()
    return bool(units.get("amx_bf16") or units.get("avx512_bf16"))
