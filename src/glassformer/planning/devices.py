"""Devices by name: memory, bandwidth, peak rates, interconnect, power and price; this machine's CPU is measured."""

import math
import re
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TypeGuard

import msgspec
import torch
from torch.nn import functional

from glassformer.errors import ConfigError
from glassformer.onednn import cpu_capabilities, onednn_is_faster, onednn_linear
from glassformer.planning.device_spec import DeviceSpec
from glassformer.suggestions import did_you_mean
from glassformer.training.device import CPU, Device
from glassformer.training.estimate import memory_of

BUILT_IN = "devices.toml"
TRIAL, TRIES, CALLS = 2**24, 5, 1000  # numbers of a copy, least tries of each measurement, small calls of one
WHILE = 0.2  # seconds for which each is tried
NUMBERS_OF_GELU = 2**22  # numbers of an activation that is timed
CALLS_OF_AUTOGRAD = 3  # times that a call takes longer where autograd records it and goes back through it
ATTENTION, FORWARD_AND_BACKWARD = (8, 4, 64, 32), 3.5  # shape of attention that is timed; operations in forward ones
ROWS, DIM = 1024, 512  # of a matrix whose rows are summed
WEIGHTS = (8192, 4096)  # of a layer that reads one row: more than a cache holds
TERA, GIGA, MICRO = 1e12, 1e9, 1e-6
UNITS = {"memory": GIGA, "bandwidth": GIGA, "interconnect": GIGA, "launch": MICRO, "dispatch": MICRO}
KINDS = ("cuda", "cpu", "mps")
FRACTIONS = ("achievable", "attention", "bandwidth_fraction", "pointwise")  # of a peak, above 0
POSITIVE = ("memory", "bandwidth")
NOT_NEGATIVE = ("interconnect", "launch", "dispatch", "power", "price")
RATES = ("functions", "first_touch")  # per second, infinite where they never limit
BY_DTYPE = ("peaks", "attention_rates", "sums")
OTHER_MODELS = ("PCIE", "NVL", "MIG", "LAPTOP", "MOBILE", "MAX-Q", "D")  # slower ones that share a GPU's name
MEMORY_OFF = 0.2  # of the memory in the file: a GPU with more or less is another one of the same name
LAUNCH = 3e-6  # seconds to start a kernel on a GPU that is measured, as on the H200


def devices(file: Path | str | None = None) -> dict[str, DeviceSpec]:
    """The known devices by name; those of a TOML file of the same form are added, or replace known ones."""
    table = tomllib.loads(files("glassformer.planning").joinpath(BUILT_IN).read_text(encoding="utf-8"))
    known = {name: _device(BUILT_IN, name, entries) for name, entries in table.items()}
    if file is None:
        return known
    try:
        own = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"{file}: is not valid TOML: {error}") from error
    return {**known, **{name: _device(str(file), name, entries) for name, entries in own.items()}}


def _device(file: str, name: str, entries: object) -> DeviceSpec:
    """A device from its table, in the units of the file."""
    if not isinstance(entries, dict):
        raise ConfigError(
            f"{file}: {name} is {entries!r}, wanted a table such as [{name}] with memory, bandwidth, peaks"
        )
    known = {each.name for each in fields(DeviceSpec)}
    where = f"{file}: {name}"
    for key, value in entries.items():
        if key not in known:
            raise ConfigError(f"{where} has no {key}; {did_you_mean(key, known)}")
        _require_sound(f"{where}.{key}", key, value)
    if "float32" not in entries.get("peaks", {}):
        raise ConfigError(f"{where}.peaks is {entries.get('peaks')!r}, wanted TFLOP/s by dtype, float32 among them")
    scaled = {key: value * UNITS.get(key, 1) if key in UNITS else value for key, value in entries.items()}
    scaled["peaks"] = {dtype: float(rate) * TERA for dtype, rate in entries["peaks"].items()}
    try:
        return msgspec.convert({"name": name, "kind": "cuda", **scaled}, DeviceSpec)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}") from None


def _require_sound(where: str, key: str, value: object) -> None:
    """Raise unless a value of a file of devices is one that its key can have; `where` has the file and the device."""
    if key == "kind" and value not in KINDS:
        raise ConfigError(f"{where} is {value!r}, wanted {', '.join(KINDS)}")
    if key in FRACTIONS and not (_is_number(value) and 0 < value <= 1):
        raise ConfigError(f"{where} is {value!r}, wanted a fraction above 0, at most 1")
    if key in POSITIVE and not (_is_number(value) and 0 < value < math.inf):
        raise ConfigError(f"{where} is {value!r}, wanted a number above 0")
    if key in RATES and not (_is_number(value) and value > 0):
        raise ConfigError(f"{where} is {value!r}, wanted a number above 0, or inf")
    if key in NOT_NEGATIVE and not (_is_number(value) and 0 <= value < math.inf):
        raise ConfigError(f"{where} is {value!r}, wanted a number, 0 or more")
    if key in BY_DTYPE:
        what = "TFLOP/s" if key == "peaks" else "a rate"
        if not isinstance(value, dict):
            raise ConfigError(f"{where} is {value!r}, wanted {what} by dtype")
        for dtype, rate in value.items():
            if not (_is_number(rate) and 0 < rate < math.inf):
                raise ConfigError(f"{where}.{dtype} is {rate!r}, wanted a number above 0")


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
    hint = did_you_mean(name, [*known, "auto", "cpu", "cuda"])
    raise ConfigError(f"device is {name!r}, wanted auto, cpu, cuda or one of {', '.join(known)}; {hint}")


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
    return found or _measured(Device(torch.device("cuda"), bf16=True, compile=True), properties.name)


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


@cache
def this_cpu() -> DeviceSpec:
    """The CPU of this machine: its rate in large products, its bandwidth and its calls, measured in a few seconds."""
    return _measured(Device(CPU), f"this machine's CPU, {torch.get_num_threads()} threads")


def _measured(device: Device, name: str) -> DeviceSpec:
    """A device from what it does now."""
    x = torch.ones(TRIAL, device=device.device)
    y = torch.zeros_like(x)  # written already: the first touch of memory takes much longer than the next
    seconds = _least(device, lambda: torch.add(x, 1, out=y))
    small = torch.ones(8, device=device.device)
    call = _least(device, lambda: [torch.add(small, 1) for _ in range(CALLS)]) / CALLS
    gelu = _least(device, lambda: functional.gelu(x[:NUMBERS_OF_GELU]))
    peaks = {"float32": Device(device.device).peak()}
    if device.device.type == "cuda" or _bf16_units():
        peaks["bfloat16"] = Device(device.device, bf16=True).peak()
    cpu = device.device.type == "cpu"
    touched = x.nbytes / _least(device, lambda: torch.ones(TRIAL)) if cpu else math.inf
    attention, sums = _kernel_rates(device, tuple(peaks))
    return DeviceSpec(
        name=name, kind=device.device.type, attention_rates=attention, sums=sums, first_touch=touched,
        memory=float(memory_of(device.device)), bandwidth=2 * x.nbytes / seconds,
        peaks=peaks, achievable=1.0, bandwidth_fraction=_reading_rate() * seconds / (2 * x.nbytes) if cpu else 1.0,
        pointwise=1.0, launch=0.0 if cpu else LAUNCH, dispatch=CALLS_OF_AUTOGRAD * call,
        functions=NUMBERS_OF_GELU / gelu, source="measured here and now",
    )  # fmt: skip


def _least(device: Device, work: Callable[[], object]) -> float:
    """The least seconds that some work takes, tried for a while: other processes only add to it."""
    found, end = [device.timed(work)], time.perf_counter() + WHILE
    while len(found) < TRIES or time.perf_counter() < end:
        found.append(device.timed(work))
    return min(found)


def _kernel_rates(device: Device, dtypes: Sequence[str]) -> tuple[dict[str, float], dict[str, float]]:
    """Rates of fused attention and of sums by dtype, on a CPU, whose kernels can be far from its peaks.

    On a GPU shapes this small would measure launches: there both are fractions of the peaks, as of a known device.
    """
    if device.device.type != "cpu":
        return {}, {}
    attention = {dtype: _attention_rate(device, dtype) for dtype in dtypes}
    return attention, {dtype: _sum_rate(device, dtype) for dtype in dtypes}


def _attention_rate(device: Device, dtype: str) -> float:
    """Operations per second of fused attention, forward and backward."""
    batch, heads, length, dim = ATTENTION
    q = torch.randn(ATTENTION, device=device.device, dtype=getattr(torch, dtype), requires_grad=True)

    def attend() -> None:
        functional.scaled_dot_product_attention(q, q, q).sum().backward()

    return FORWARD_AND_BACKWARD * 4 * batch * heads * length**2 * dim / _least(device, attend)


def _reading_rate() -> float:
    """Bytes per second at which a product of one row reads weights that no cache holds, as in decoding."""
    x, weight = torch.ones(1, WEIGHTS[1]), torch.ones(WEIGHTS)
    product = onednn_linear if onednn_is_faster() else functional.linear
    return weight.nbytes / _least(Device(CPU), lambda: product(x, weight, None))


def _sum_rate(device: Device, dtype: str) -> float:
    """Bytes per second of a sum over the rows of a matrix, as in the gradient of a bias."""
    x = torch.ones(ROWS, DIM, device=device.device, dtype=getattr(torch, dtype))
    return x.nbytes / _least(device, lambda: x.sum(0))


def _bf16_units() -> bool:
    units = cpu_capabilities()
    return bool(units.get("amx_bf16") or units.get("avx512_bf16"))
