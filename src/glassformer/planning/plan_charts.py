"""Memory and time of a planned training step against length, batch and width, as a picture."""

from collections.abc import Mapping, Sequence

from glassformer.charts import Curve, Panel, panels
from glassformer.planning.figures import Plan, PlannedStep

GIGA, MILLI = 1e9, 1e-3
AXES = {"length": "length in tokens", "batch": "batch in rows", "width": "width of the hidden states"}


def plan_charts(planned: Plan, around: Mapping[str, Sequence[tuple[int, PlannedStep]]]) -> str:
    """A picture of memory and step time against each size, from the plans around one."""
    found: list[Panel] = []
    for name, plans in around.items():
        memory = [(size, each.memory.peak / GIGA) for size, each in plans]
        less = [(size, each.memory.peak_checkpointed / GIGA) for size, each in plans]
        curves = [Curve("peak", "one", memory, marked=True), Curve("checkpointed", "two", less, marked=True)]
        found.append(Panel(f"memory in GB by {AXES[name]}", curves))
        times = [(size, each.time.seconds / MILLI) for size, each in plans]
        found.append(Panel(f"ms a step by {AXES[name]}", [Curve("step", "three", times, marked=True)]))
    return panels(f"Plan of {planned.name} on {planned.device.name}", found)
