"""Devices by name, and this machine's: a GPU that is known, or else measured, and its CPU, which is measured."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from glassformer.errors import ConfigError
from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.known_devices import devices
from glassformer.planning.measured_device import measured_device, this_cpu
from glassformer.suggestions import did_you_mean
from glassformer.training.device import Device

OTHER_MODELS = ("PCIE", "NVL", "MIG", "LAPTOP", "MOBILE", "MAX-Q", "D")  # slower ones that share a GPU's name
MEMORY_OFF = 0.2  # of the memory in the file: a GPU with more or less is another one of the same name


def find_device(name: str = "auto", file: Path | str | None = None) -> DeviceSpec:
    """A device by name; "auto" is this machine's GPU if it has one, "cpu" and "cuda" are this machine's."""
    known = devices(file)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cpu":
        return this_cpu()
    if name == "cuda" and torch.cuda.is_available():
        return _this_gpu(known)
    if name in known:
        return known[name]
    if name == "cuda":
        raise ConfigError(f"device is cuda, and this machine has no CUDA device; wanted cpu or {', '.join(known)}")
    wanted = f"wanted auto, cpu, cuda or one of {', '.join(known)}"
    raise ConfigError(f"device is {name!r}; {did_you_mean(name, [*known, 'auto', 'cpu', 'cuda'], wanted)}")


def require_here(spec: DeviceSpec) -> None:
    """Raise unless steps planned for a device can be measured on this machine.

    A device of a file of one's own is taken to describe this machine, if it is of a type that this machine has.
    """
    has_gpu = torch.cuda.is_available()
    built_in = {each.name for each in devices().values()}
    here = _this_gpu(devices()).name if has_gpu and spec.name in built_in else ""
    if spec.kind not in (("cpu", "cuda") if has_gpu else ("cpu",)) or (spec.name in built_in and spec.name != here):
        wanted = "wanted auto, cpu or cuda" if has_gpu else "wanted auto or cpu"
        raise ConfigError(f"device is {spec.name}, and steps can only be measured on this machine's; {wanted}")


def _this_gpu(known: Mapping[str, DeviceSpec]) -> DeviceSpec:
    """The known device that this machine's GPU is, with the memory that it really has; else the GPU as measured."""
    properties = torch.cuda.get_device_properties(0)
    found = known_gpu(properties.name, float(properties.total_memory), known)
    return found or measured_device(Device(torch.device("cuda"), bf16=True, compile=True), properties.name)


def known_gpu(name: str, memory: float, known: Mapping[str, DeviceSpec]) -> DeviceSpec | None:
    """The device that a GPU of this name and memory is, with that memory; None if it is not known.

    The key of a device has to be a word of the name. A GPU of the same name with another board or another memory, such
    as an H100 PCIe, has another bandwidth, and is not known.
    """
    words = name.upper().split()
    if {part for word in words for part in word.split("-")} & {*OTHER_MODELS} or {*words} & {*OTHER_MODELS}:
        return None
    for key, spec in known.items():
        pattern = re.sub(r"^([A-Z]{3,})(?=\d)", r"\1 ?", re.escape(key.upper()))  # RTX 4090 and RTX4090
        near = abs(memory - spec.memory) <= MEMORY_OFF * spec.memory
        if spec.kind == "cuda" and near and re.search(rf"(?<![A-Z0-9]){pattern}(?![A-Z0-9])", name.upper()):
            return replace(spec, memory=memory)
    return None
