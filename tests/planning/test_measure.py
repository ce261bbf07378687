"""Measured beside predicted: both of the same thing, and on this machine only."""

from dataclasses import replace

import pytest
import torch

from glassformer.errors import ConfigError
from glassformer.models.gpt import GPTConfig
from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.devices import find_device
from glassformer.planning.measure import eager_seconds, measure
from glassformer.planning.plan import plan, what_is

TINY = GPTConfig(vocab=61, context=32, dim=32, layers=2, heads=2)
HERE = DeviceSpec(name="here", kind="cpu", memory=8e9, bandwidth=1e10, peaks={"float32": 1e11})


def test_on_a_cpu_the_equations_add_up_to_the_passes_of_the_plan() -> None:
    """Each equation's prediction has the calls of the host, as the plan's step has."""
    found = plan(TINY, device=HERE, batch=4)
    equations = eager_seconds(what_is(TINY), found)
    assert sum(equations.values()) == pytest.approx(found.time.seconds - found.time.update, rel=1e-6)
    free = plan(TINY, device=replace(HERE, dispatch=0.0), batch=4)
    assert sum(equations.values()) > 2 * sum(row.seconds for row in free.operations.by_equation)


def test_on_a_gpu_the_equations_are_predicted_as_they_are_measured_without_a_compiler() -> None:
    device = find_device("h200")
    found = plan(TINY, device=device, batch=4)
    equations = eager_seconds(what_is(TINY), found)
    fused = {row.name: row.seconds for row in found.operations.by_equation}
    assert equations["layer_norm"] > fused["layer_norm"] + 5 * device.dispatch  # five norms, none of them fused
    assert all(equations.get(name, 0.0) >= seconds for name, seconds in fused.items())


def test_the_rows_of_an_update_are_those_of_all_its_batches() -> None:
    one = plan(TINY, device=HERE, batch=2)
    two = replace(one, workload=replace(one.workload, gradient_accumulation=2))
    rows = [measure(what_is(TINY), each).by_equation for each in (one, two)]
    predicted = [{row.name: row.predicted for row in each} for each in rows]
    assert predicted[1] == {name: pytest.approx(2 * seconds) for name, seconds in predicted[0].items()}
    assert {row.name for row in rows[0] if row.measured} >= {"linear", "layer_norm", "attention"}


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine may have that device")
def test_steps_are_not_measured_for_another_machine() -> None:
    for device in ("h200", "m1"):
        found = plan(TINY, device=device, batch=2)
        with pytest.raises(ConfigError, match="steps can only be measured on this machine's"):
            measure(what_is(TINY), found)


def test_steps_are_measured_on_one_device() -> None:
    found = plan(TINY, device=replace(HERE, interconnect=1e9), batch=2, devices=2)
    with pytest.raises(ConfigError, match="devices is 2, and steps are measured on one"):
        measure(what_is(TINY), found)
