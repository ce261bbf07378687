"""`gf.plan`: parameters, operations, memory and time of a model on a device, before anything is run."""

from pathlib import Path

from glassformer.layers.config import Config
from glassformer.layers.model import Model
from glassformer.planning.devices import DeviceSpec
from glassformer.planning.figures import Plan


def plan(
    model: Model | Config | str | Path,
    *,
    device: DeviceSpec | str = "auto",
    batch: int | None = None,
    length: int | None = None,
    dtype: str = "auto",
    optimizer: str = "adamw",
    strategy: str = "ddp",
    devices: int = 1,
) -> Plan:
    """What a model, a configuration, a preset, a run folder or a TOML file of settings takes on a device."""
    raise NotImplementedError
