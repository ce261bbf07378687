"""Memory and time of a planned training step against length, batch and width, as a picture."""

from dataclasses import replace
from pathlib import Path

from glassformer.charts import Curve, Panel, panels
from glassformer.errors import ConfigError
from glassformer.layers.config import Config
from glassformer.layers.model import Model
from glassformer.planning.example_batch import longest
from glassformer.planning.figures import Plan
from glassformer.planning.plan import plan
from glassformer.planning.planned_model import planned_model

FACTORS = (0.25, 0.5, 1.0, 2.0)
GIGA, MILLI = 1e9, 1e-3


def plan_charts(model: Model | Config | str | Path, planned: Plan) -> str:
    """A picture of memory and step time against the length, the batch and the width, around what was planned."""
    config, workload = planned_model(model).model.config, planned.workload
    rows: list[tuple[str, list[tuple[int, Plan]]]] = [("batch", _plans(planned, config, "batch", workload.batch))]
    if workload.length:
        lengths = _plans(planned, config, "length", workload.length, longest(planned_model(model).model))
        rows.insert(0, ("length", lengths))
    if isinstance(vars(config).get("dim"), int):
        rows.append(("width", _widths(planned, config)))
    found: list[Panel] = []
    for name, plans in rows:
        memory = [(size, each.memory.peak / GIGA) for size, each in plans]
        less = [(size, each.memory.peak_checkpointed / GIGA) for size, each in plans]
        curves = [Curve("peak", "one", memory, marked=True), Curve("checkpointed", "two", less, marked=True)]
        found.append(Panel(f"memory in GB by {name}", curves))
        times = [(size, each.time.seconds / MILLI) for size, each in plans]
        found.append(Panel(f"ms a step by {name}", [Curve("step", "three", times, marked=True)]))
    return panels(f"Plan of {planned.name} on {planned.device.name}", found)


def _plans(planned: Plan, config: Config, name: str, size: int, most: int | None = None) -> list[tuple[int, Plan]]:
    """Plans at a quarter, a half, the whole and the double of a size, as far as the model can read."""
    sizes = sorted({max(round(size * factor), 1) for factor in FACTORS})
    kept = [each for each in sizes if most is None or each <= most]
    return [(each, _again(planned, config, **{name: each})) for each in kept]


def _again(planned: Plan, config: Config, **sizes: int) -> Plan:
    workload = planned.workload
    chosen = {"batch": workload.batch, "length": workload.length, **sizes}
    return plan(
        config, device=planned.device, batch=chosen["batch"], length=chosen["length"], dtype=workload.dtype,
        optimizer=workload.optimizer, strategy=workload.strategy, devices=workload.devices,
    )  # fmt: skip


def _widths(planned: Plan, config: Config) -> list[tuple[int, Plan]]:
    """Plans at other widths, heads as wide as before where that is possible."""
    found: list[tuple[int, Plan]] = []
    for factor in FACTORS:
        scaled = {
            name: max(round(value * factor), 1)
            for name, value in vars(config).items()
            if name in ("dim", "heads", "kv_heads", "ffn_dim") and isinstance(value, int)
        }
        try:
            found.append((scaled["dim"], _again(planned, replace(config, **scaled))))
        except ConfigError:  # a width that the heads do not divide
            continue
    return found
