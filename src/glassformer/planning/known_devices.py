"""The known devices by name: memory, bandwidth, peak rates, interconnect, power and price, and files of one's own."""

import math
import tomllib
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import TypeGuard

import msgspec

from glassformer.errors import ConfigError
from glassformer.planning.device_spec import DeviceSpec
from glassformer.suggestions import did_you_mean

BUILT_IN = "devices.toml"
TERA, GIGA, MICRO = 1e12, 1e9, 1e-6
UNITS = {
    **dict.fromkeys(("memory", "bandwidth", "interconnect"), GIGA),
    **dict.fromkeys(("launch", "dispatch", "cold_dispatch"), MICRO),
}
KINDS = ("cuda", "cpu", "mps")
FRACTIONS = ("achievable", "attention", "bandwidth_fraction", "pointwise")  # of a peak, above 0
POSITIVE = ("memory", "bandwidth")
NOT_NEGATIVE = ("interconnect", "launch", "dispatch", "cold_dispatch", "power", "price")
RATES = ("functions", "first_touch")  # per second, infinite where they never limit
MEASURED = "kernels"  # what is measured here and now, and no file says


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
    known = {each.name for each in fields(DeviceSpec)} - {MEASURED}
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
    if key == "peaks":
        if not isinstance(value, dict):
            raise ConfigError(f"{where} is {value!r}, wanted TFLOP/s by dtype")
        for dtype, rate in value.items():
            if not (_is_number(rate) and 0 < rate < math.inf):
                raise ConfigError(f"{where}.{dtype} is {rate!r}, wanted a number above 0")


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
