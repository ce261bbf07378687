"""The picture of a plan shows the memory that its strategy takes, and says of what it is."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from glassformer.charts import Panel
from glassformer.planning.figures import Plan, PlannedStep
from glassformer.planning.memory import required
from glassformer.planning.plan_charts import plan_charts
from tests.planning.made_plans import made_plan


def chart(strategy: str) -> tuple[Plan, str]:
    """A picture of one step whose memory with DDP and with FSDP differs from its peak on one device."""
    found = made_plan(parameters=10, peak=900_000_000_000, devices=2)
    memory = replace(found.memory, sharded=300_000_000_000, replicated=700_000_000_000, saved=100_000_000_000)
    memory = replace(memory, saved_sharded=50_000_000_000)
    step = PlannedStep(
        operations=found.operations, memory=memory, time=found.time, time_checkpointed=found.time_checkpointed
    )
    found = replace(found, workload=replace(found.workload, strategy=strategy))
    assert required(memory, found.workload) == {"fsdp": 300_000_000_000, "ddp": 700_000_000_000}[strategy]
    return found, plan_charts(found, {"batch": [(2, step), (4, step)]})


@pytest.mark.parametrize(("strategy", "peak", "less"), [("ddp", 700.0, 600.0), ("fsdp", 300.0, 250.0)])
def test_the_memory_is_that_of_the_strategy(
    strategy: str, peak: float, less: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Sequence[Panel]] = []
    monkeypatch.setattr("glassformer.planning.plan_charts.panels", lambda title, found: drawn.append(found) or title)
    chart(strategy)
    memory = {curve.name: [value for _, value in curve.points] for curve in drawn[0][0].curves}
    assert memory == {"peak": [peak, peak], "checkpointed": [less, less]}


def test_the_title_names_the_batch_the_dtype_and_the_strategy() -> None:
    drawn = chart("fsdp")[1]
    assert "<title>Plan of made on a device, FSDP over 2, batch 4 of 1,000 tokens, float32</title>" in drawn
