"""Memory and time of a planned training step against length, batch and width, as a picture."""

from collections.abc import Mapping, Sequence

from glassformer.charts import Curve, Panel, panels
from glassformer.planning.figures import Plan, PlannedStep
from glassformer.planning.memory import required

GIGA, MILLI = 1e9, 1e-3
AXES = {"length": "length in tokens", "batch": "batch in rows", "width": "width of the hidden states"}


def plan_charts(planned: Plan, around: Mapping[str, Sequence[tuple[int, PlannedStep]]]) -> str:
    """A picture of memory and step time against each size, from the plans around one.

    Memory is that of one device with the strategy of the plan.
    """
    found: list[Panel] = []
    workload = planned.workload
    for name, plans in around.items():
        memory, less = (
            [(size, required(each.memory, workload, again) / GIGA) for size, each in plans] for again in (False, True)
        )
        curves = [Curve("peak", "one", memory, marked=True), Curve("checkpointed", "two", less, marked=True)]
        found.append(Panel(f"memory in GB by {AXES[name]}", curves))
        times = [(size, each.time.seconds / MILLI) for size, each in plans]
        found.append(Panel(f"ms a step by {AXES[name]}", [Curve("step", "three", times, marked=True)]))
    size = f"batch {workload.batch:,}" + (f" of {workload.length:,} tokens" if workload.length else "")
    spread = f", {workload.strategy.upper()} over {workload.devices:,}" if workload.devices > 1 else ""
    where = f"{planned.device.name}{spread}"
    return panels(f"Plan of {planned.name} on {where}, {size}, {workload.dtype}", found)
