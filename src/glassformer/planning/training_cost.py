"""What a whole training run takes: hours, energy and money for a number of tokens."""

from dataclasses import dataclass, replace

from glassformer.equations.scaling import training_energy, training_hours
from glassformer.errors import ConfigError
from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.figures import Plan
from glassformer.planning.memory import required

PUE = 1.1  # power usage effectiveness of a large data center (Patterson et al., 2021); at home it is 1


@dataclass(frozen=True, kw_only=True)
class TrainingCost:
    """A training run as a whole. Energy and money are None where the power or the price of the device is not known.

    `checkpointed` says that its steps take the time of activation checkpointing, since they fit only with it, `fits`
    whether they fit at all; both are None where no step was planned.
    """

    tokens: float
    flops: float
    device: str
    devices: int
    hours: float
    device_hours: float
    kilowatt_hours: float | None
    pue: float
    dollars: float | None
    checkpointed: bool | None = None
    fits: bool | None = None


def training_cost(plan: Plan, tokens: float, pue: float = PUE) -> TrainingCost:
    """What training the planned model on some tokens takes, at the speed of the plan's step as far as that fits."""
    _require_tokens(tokens)
    workload = plan.workload
    again = not plan.fits and required(plan.memory, workload, checkpointed=True) <= plan.device.memory
    seconds = (plan.time_checkpointed if again else plan.time).seconds
    hours = tokens / (plan.operations.tokens * workload.devices) * seconds / 3600.0
    found = _cost(tokens, plan.operations.per_token * tokens, plan.device, workload.devices, hours, pue)
    return replace(found, checkpointed=again or workload.activation_checkpointing, fits=plan.fits or again)


def cost_at_rate(
    tokens: float, flops: float, device: DeviceSpec, flops_per_second: float, devices: int = 1, pue: float = PUE
) -> TrainingCost:
    """What a number of operations takes, where each device does `flops_per_second` of them."""
    _require_tokens(tokens)
    return _cost(tokens, flops, device, devices, training_hours(flops, flops_per_second, devices), pue)


def _require_tokens(tokens: float) -> None:
    if not 0 < tokens < float("inf"):
        raise ConfigError(f"tokens is {tokens}, wanted a number above 0")


def _cost(tokens: float, flops: float, device: DeviceSpec, devices: int, hours: float, pue: float) -> TrainingCost:
    energy = training_energy(hours, device.power, devices, pue) if device.power else None
    return TrainingCost(
        tokens=tokens, flops=flops, device=device.name, devices=devices, hours=hours, device_hours=hours * devices,
        kilowatt_hours=energy, pue=pue, dollars=hours * devices * device.price if device.price else None,
    )  # fmt: skip
