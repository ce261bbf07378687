"""Schedules against those of transformers, the sources' numbers, and their own shapes."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.optim.lr_scheduler import LambdaLR
from transformers.optimization import (
    get_cosine_schedule_with_warmup,
    get_inverse_sqrt_schedule,
    get_linear_schedule_with_warmup,
    get_wsd_schedule,
)

from glassformer.equations import (
    cosine_schedule,
    ema_warmup,
    inverse_square_root_schedule,
    linear_schedule,
    linear_warmup,
    noam_learning_rate,
    schedule_progress,
    warmup_stable_decay,
)
from glassformer.errors import EquationError

CASES = settings(max_examples=100, deadline=None)
STEP, WARMUP, LONG = st.integers(1, 2000), st.integers(1, 300), st.integers(1, 1000)
PEAK, SHARE = st.floats(1e-6, 1), st.floats(0, 1)


def factor(make: Callable[..., LambdaLR], step: int, *args: int, **kwargs: object) -> float:
    """What a schedule of transformers multiplies the peak by at a step."""
    schedule = make(torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0), *args, **kwargs)
    return schedule.lr_lambdas[0](step)


def test_noam_is_the_worked_example() -> None:
    wanted = {
        1: 1.746928107421711e-07,
        1000: 0.0001746928107421711,
        4000: 0.0006987712429686843,
        8000: 0.0004941058844013093,
        100000: 0.00013975424859373687,
    }
    assert {step: noam_learning_rate(step, 512, 4000) for step in wanted} == pytest.approx(wanted, rel=1e-12)


@CASES
@given(dim=st.integers(1, 4096), warmup=WARMUP)
def test_noam_climbs_to_its_peak_at_the_end_of_the_warm_up_and_falls(dim: int, warmup: int) -> None:
    rates = [noam_learning_rate(step, dim, warmup) for step in range(1, 2 * warmup + 2)]
    assert max(rates) == rates[warmup - 1] == pytest.approx((dim * warmup) ** -0.5)
    assert rates[:warmup] == sorted(rates[:warmup]) and rates[warmup - 1 :] == sorted(rates[warmup - 1 :], reverse=True)


@CASES
@given(step=STEP, dim=st.integers(1, 4096), warmup=WARMUP)
def test_noam_is_the_inverse_square_root_with_its_own_peak(step: int, dim: int, warmup: int) -> None:
    peak = (dim * warmup) ** -0.5
    assert noam_learning_rate(step, dim, warmup) == pytest.approx(inverse_square_root_schedule(step, warmup, peak))


@CASES
@given(step=STEP, warmup=WARMUP, peak=PEAK)
def test_inverse_square_root_is_that_of_transformers(step: int, warmup: int, peak: float) -> None:
    wanted = peak * factor(get_inverse_sqrt_schedule, step, warmup, timescale=warmup)
    assert inverse_square_root_schedule(step, warmup, peak) == pytest.approx(wanted)


@CASES
@given(step=STEP, warmup=WARMUP, fall=LONG, peak=PEAK)
def test_linear_is_that_of_transformers(step: int, warmup: int, fall: int, peak: float) -> None:
    wanted = peak * factor(get_linear_schedule_with_warmup, step, warmup, warmup + fall)
    assert linear_schedule(step, warmup, warmup + fall, peak) == pytest.approx(wanted)


@CASES
@given(share=SHARE, warmup=WARMUP, fall=LONG, peak=PEAK)
def test_cosine_is_that_of_transformers(share: float, warmup: int, fall: int, peak: float) -> None:
    step = max(1, round(share * (warmup + fall)))  # theirs climbs again after the end
    wanted = peak * factor(get_cosine_schedule_with_warmup, step, warmup, warmup + fall)
    assert cosine_schedule(step, warmup, warmup + fall, peak) == pytest.approx(wanted, abs=1e-12)


@CASES
@given(step=STEP, warmup=WARMUP, stable=st.integers(0, 500), decay=LONG, peak=PEAK, share=SHARE)
def test_warmup_stable_decay_is_that_of_transformers(
    step: int, warmup: int, stable: int, decay: int, peak: float, share: float
) -> None:
    lengths = {"num_warmup_steps": warmup, "num_stable_steps": stable, "num_decay_steps": decay}
    low = factor(get_wsd_schedule, step, **lengths, decay_type="linear", min_lr_ratio=share)
    # Theirs also starts its climb from the floor: ours starts from zero.
    wanted = peak * (low if step >= warmup else step / warmup)
    assert warmup_stable_decay(step, warmup, stable, decay, peak, share * peak) == pytest.approx(wanted)


@CASES
@given(step=STEP, warmup=WARMUP, fall=LONG, peak=PEAK, share=SHARE)
def test_cosine_is_the_rule_in_cases(step: int, warmup: int, fall: int, peak: float, share: float) -> None:
    floor, total = share * peak, warmup + fall
    if step <= warmup:
        wanted = peak * step / warmup
    elif step >= total:
        wanted = floor
    else:
        wanted = floor + 0.5 * (1 + math.cos(math.pi * (step - warmup) / fall)) * (peak - floor)
    assert cosine_schedule(step, warmup, total, peak, floor) == pytest.approx(wanted)


@CASES
@given(warmup=WARMUP, fall=LONG, peak=PEAK, share=SHARE)
def test_schedules_meet_their_corners(warmup: int, fall: int, peak: float, share: float) -> None:
    floor, total = share * peak, warmup + fall
    for schedule in (linear_schedule, cosine_schedule):
        assert schedule(warmup, warmup, total, peak, floor) == pytest.approx(peak)
        assert schedule(total, warmup, total, peak, floor) == pytest.approx(floor)
        assert schedule(10 * total, warmup, total, peak, floor) == pytest.approx(floor)
    assert linear_warmup(warmup, warmup, peak) == linear_warmup(10 * warmup, warmup, peak) == peak
    assert warmup_stable_decay(total, warmup, fall, 7, peak, floor) == pytest.approx(peak)
    assert warmup_stable_decay(total + 7, warmup, fall, 7, peak, floor) == pytest.approx(floor)


@CASES
@given(start=st.integers(0, 50), length=st.integers(1, 50))
def test_progress_runs_from_nothing_to_all(start: int, length: int) -> None:
    done = [schedule_progress(step, start, start + length) for step in range(start + 2 * length + 1)]
    assert done == sorted(done) and done[start] == 0.0 and done[start + length] == done[-1] == 1.0


def test_every_rate_is_a_plain_float() -> None:
    rates = [
        noam_learning_rate(4, 1, 4),
        linear_warmup(9, 3, 1),
        inverse_square_root_schedule(4, 4, 1),
        schedule_progress(5, 0, 5),
        linear_schedule(3, 3, 9, 1),
        cosine_schedule(3, 3, 9, 1),
        warmup_stable_decay(5, 3, 4, 2, 1),
    ]
    assert [type(rate) for rate in rates] == [float] * len(rates)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: noam_learning_rate(0, 512, 4000), "step is 0, wanted a whole number, at least 1"),
        (lambda: noam_learning_rate(-3, 512, 4000), "step is -3"),
        (lambda: noam_learning_rate(1.5, 512, 4000), "step is 1.5"),
        (lambda: noam_learning_rate("1", 512, 4000), "step is '1'"),
        (lambda: noam_learning_rate(1, 0, 4000), "dim is 0"),
        (lambda: noam_learning_rate(1, 512, 0), "warmup is 0"),
        (lambda: linear_warmup(0, 10, 1.0), "step is 0"),
        (lambda: linear_warmup(1, 0, 1.0), "warmup is 0"),
        (lambda: linear_warmup(1, 10, -1.0), "peak is -1.0, wanted a number, zero or more"),
        (lambda: linear_warmup(1, 10, math.nan), "peak is nan"),
        (lambda: inverse_square_root_schedule(0, 10, 1.0), "step is 0"),
        (lambda: inverse_square_root_schedule(1, 0, 1.0), "warmup is 0"),
        (lambda: inverse_square_root_schedule(1, 10, math.inf), "peak is inf"),
        (lambda: schedule_progress(-1, 0, 5), "step is -1"),
        (lambda: schedule_progress(1, 5, 5), "end is 5, wanted a step after start = 5"),
        (lambda: linear_schedule(0, 1, 10, 1.0), "step is 0"),
        (lambda: linear_schedule(1, 0, 10, 1.0), "warmup is 0"),
        (lambda: linear_schedule(1, 10, 10, 1.0), "total is 10, wanted a step after warmup = 10"),
        (lambda: linear_schedule(1, 1, 10, 1.0, 2.0), "floor is 2.0, wanted at most the peak, 1.0"),
        (lambda: cosine_schedule(0, 1, 10, 1.0), "step is 0"),
        (lambda: cosine_schedule(1, 0, 10, 1.0), "warmup is 0"),
        (lambda: cosine_schedule(1, 10, 5, 1.0), "total is 5, wanted a step after warmup = 10"),
        (lambda: cosine_schedule(1, 1, 10, -1.0), "peak is -1.0"),
        (lambda: cosine_schedule(1, 1, 10, 1.0, -0.1), "floor is -0.1"),
        (lambda: cosine_schedule(1, 1, 10, 1.0, 2.0), "floor is 2.0"),
        (lambda: warmup_stable_decay(0, 1, 1, 1, 1.0), "step is 0"),
        (lambda: warmup_stable_decay(1, 0, 1, 1, 1.0), "warmup is 0"),
        (lambda: warmup_stable_decay(1, 1, -1, 1, 1.0), "stable is -1"),
        (lambda: warmup_stable_decay(1, 1, 1, 0, 1.0), "decay is 0"),
        (lambda: warmup_stable_decay(1, 1, 1, 1, 1.0, 2.0), "floor is 2.0"),
    ],
)
def test_bad_input_is_named(call: Callable[[], object], words: str) -> None:
    with pytest.raises(EquationError, match=words):
        call()


@given(decay=st.floats(0, 0.9999), steps=st.integers(1, 500))
def test_a_warmed_up_average_forgets_its_first_value(decay: float, steps: int) -> None:
    decays = [ema_warmup(step, decay) for step in range(1, steps + 1)]
    assert decays == sorted(decays) and max(decays) <= decay
    wanted = math.prod((1 + step) / (10 + step) for step in range(1, steps + 1))
    assert math.prod(decays) <= wanted * (1 + 1e-9), "the share of the first value in the average"


def test_a_warm_up_ends_at_the_decay() -> None:
    assert ema_warmup(1, 0.999) == 2 / 11 and ema_warmup(8990, 0.999) == 0.999 > ema_warmup(8980, 0.999)
    with pytest.raises(EquationError, match="decay is 1, wanted at least 0, less than 1"):
        ema_warmup(1, 1)
