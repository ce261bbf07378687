"""Hours, energy and money of a run, by the step of a plan or by a rate."""

from dataclasses import replace

import pytest

from glassformer.errors import ConfigError
from glassformer.planning.training_cost import cost_at_rate, training_cost
from tests.planning.made_plans import DEVICE, made_plan


def test_a_run_takes_its_steps_times_their_seconds() -> None:
    found = training_cost(made_plan(parameters=1000, seconds=0.5), tokens=4000 * 7200, pue=1.5)
    assert found.hours == pytest.approx(1.0)  # 7,200 steps of half a second
    assert found.flops == pytest.approx(6 * 1000 * found.tokens)
    assert found.kilowatt_hours == pytest.approx(0.5 * 1.5)
    assert found.dollars == pytest.approx(2.0)


def test_twice_the_devices_take_half_the_hours_at_the_same_price() -> None:
    one, two = (training_cost(made_plan(devices=devices), tokens=1e9) for devices in (1, 2))
    assert two.hours == pytest.approx(one.hours / 2)
    assert two.device_hours == pytest.approx(one.device_hours)
    assert (two.kilowatt_hours, two.dollars) == (pytest.approx(one.kilowatt_hours), pytest.approx(one.dollars))


def test_a_step_that_fits_only_with_activation_checkpointing_takes_its_time() -> None:
    usual = made_plan(parameters=1000, peak=40_000)
    cost = training_cost(usual, tokens=1e9)
    assert (cost.fits, cost.checkpointed) == (True, False)
    tight = replace(usual, device=replace(DEVICE, memory=usual.memory.peak_checkpointed + 1.0))
    again = training_cost(tight, tokens=1e9)
    assert (again.fits, again.checkpointed) == (True, True)
    assert again.hours == pytest.approx(1.3 * cost.hours)
    small = training_cost(replace(usual, device=replace(DEVICE, memory=100.0)), tokens=1e9)
    assert (small.fits, small.checkpointed) == (False, False)


def test_at_a_rate_the_operations_say_how_long() -> None:
    found = cost_at_rate(1e9, 3.6e18, DEVICE, 1e14, devices=5)
    assert found.hours == pytest.approx(2.0) and found.device_hours == pytest.approx(10.0)


def test_what_is_not_known_is_left_out() -> None:
    found = cost_at_rate(1e9, 1e18, replace(DEVICE, power=0.0, price=0.0), 1e14)
    assert found.kilowatt_hours is None and found.dollars is None


@pytest.mark.parametrize("tokens", [0.0, -1.0, float("inf"), float("nan")])
def test_tokens_must_be_a_number_above_zero(tokens: float) -> None:
    with pytest.raises(ConfigError, match="tokens is"):
        training_cost(made_plan(), tokens)
