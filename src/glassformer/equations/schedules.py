"""Schedules over the course of training: learning rates and the decay of an average. Steps are numbered from 1."""

import math

from glassformer.arithmetic import number
from glassformer.equation import equation
from glassformer.equations.ranges import Require, below_one, not_negative, whole


@equation(
    r"\eta = d^{-1/2} \min\left(t^{-1/2},\; t \, w^{-3/2}\right)",
    meaning="The learning rate climbs in a straight line, then falls with the inverse square root of the step.",
    intuition="Ease a cold engine up to speed, then let the car coast down by itself.",
    symbols={
        "step": "t, the step, from 1",
        "dim": "d, model width",
        "warmup": "w, steps of climbing",
        "rate": "η, the learning rate",
    },
    where={"step dim warmup": whole},
)
def noam_learning_rate(step: int, dim: int, warmup: int) -> float:
    """Learning rate of the original Transformer, highest at the end of the warm-up (Vaswani et al., 2017).

    Step 0 has no rate: the first update is step 1.
    """
    return dim**-0.5 * min(step**-0.5, step * warmup**-1.5)


@noam_learning_rate.def_cell
def _noam_learning_rate_cell(index: tuple[int, ...], step: int, dim: int, warmup: int) -> str:
    return f"{dim}^(−0.5)·min({step}^(−0.5), {step}·{warmup}^(−1.5))"


@equation(
    r"\eta = p \min\left(1,\; t / w\right)",
    meaning="The learning rate climbs in a straight line to its peak and stays there.",
    intuition="A tap opened a little further with every step until it is fully open.",
    symbols={
        "step": "t, the step, from 1",
        "warmup": "w, steps of climbing",
        "peak": "p, highest rate",
        "rate": "η, the learning rate",
    },
    where={"step warmup": whole, "peak": not_negative},
)
def linear_warmup(step: int, warmup: int, peak: float) -> float:
    """Share of the peak rate reached so far; the peak itself from step `warmup` on (Goyal et al., 2017)."""
    return peak * min(1.0, step / warmup)


@linear_warmup.def_cell
def _linear_warmup_cell(index: tuple[int, ...], step: int, warmup: int, peak: float) -> str:
    return f"{number(peak)}·min(1, {step}/{warmup})"


@equation(
    r"\eta = p \min\left(\frac{t}{w},\; \sqrt{\frac{w}{t}}\right)",
    meaning="The learning rate climbs in a straight line, then falls with the inverse square root of the step.",
    intuition="After the climb, four times as many steps are needed each time the rate is to halve.",
    symbols={
        "step": "t, the step, from 1",
        "warmup": "w, steps of climbing",
        "peak": "p, highest rate",
        "rate": "η, the learning rate",
    },
    where={"step warmup": whole, "peak": not_negative},
)
def inverse_square_root_schedule(step: int, warmup: int, peak: float) -> float:
    """The Noam schedule with its peak given instead of the model's width (Ott et al., 2019)."""
    return peak * min(step / warmup, math.sqrt(warmup / step))


@inverse_square_root_schedule.def_cell
def _inverse_square_root_schedule_cell(index: tuple[int, ...], step: int, warmup: int, peak: float) -> str:
    return f"{number(peak)}·min({step}/{warmup}, √({warmup}/{step}))"


@equation(
    r"u = \min\left(1,\; \max\left(0,\; \frac{t - a}{b - a}\right)\right)",
    meaning="How much of a stretch of steps lies behind: 0 before it, 1 after it.",
    intuition="The bar that fills up while a file is being copied.",
    symbols={"step": "t, the step", "start": "a, where it begins", "end": "b, where it ends", "u": "share done"},
)
def schedule_progress(step: int, start: int, end: int) -> float:
    """Place of a step between two others, from 0 to 1."""
    return min(1.0, max(0.0, (step - start) / (end - start)))


@schedule_progress.def_cell
def _schedule_progress_cell(index: tuple[int, ...], step: int, start: int, end: int) -> str:
    return f"min(1, max(0, ({step} − {start})/({end} − {start})))"


@schedule_progress.def_check
def _schedule_progress_check(step: int, start: int, end: int) -> None:
    whole(schedule_progress.require, 0, step=step, start=start, end=end)
    schedule_progress.require(end > start, "end", end, f"a step after start = {start}")


@equation(
    r"\eta = \min\left(1, \frac{t}{w}\right)\left(f + (p - f)(1 - u)\right), \quad u = \frac{t - w - s}{c} \in [0, 1]",
    meaning="The learning rate climbs, keeps its peak for as long as one likes, then falls in a straight line.",
    intuition="A train: it picks up speed, runs level for the whole journey, and brakes only when the station is near.",
    symbols={
        "step": "t, the step, from 1",
        "warmup": "w, steps of climbing",
        "stable": "s, steps at the peak",
        "decay": "c, steps of falling",
        "peak": "p, highest rate",
        "floor": "f, last rate",
        "rate": "η, the learning rate",
    },
)
def warmup_stable_decay(step: int, warmup: int, stable: int, decay: int, peak: float, floor: float = 0.0) -> float:
    """Climb, hold, fall: the end of training is chosen late, when the fall begins (Hu et al., 2024)."""
    start = warmup + stable
    u = schedule_progress.fn(step, start, start + decay)
    return linear_warmup.fn(step, warmup, floor + (peak - floor) * (1 - u))


@warmup_stable_decay.def_cell
def _warmup_stable_decay_cell(
    index: tuple[int, ...], step: int, warmup: int, stable: int, decay: int, peak: float, floor: float
) -> str:
    fallen = f"min(1, max(0, ({step} − {warmup} − {stable})/{decay}))"
    return f"min(1, {step}/{warmup})·({number(floor)} + ({number(peak)} − {number(floor)})·(1 − {fallen}))"


@warmup_stable_decay.def_check
def _warmup_stable_decay_check(step: int, warmup: int, stable: int, decay: int, peak: float, floor: float) -> None:
    whole(warmup_stable_decay.require, step=step, warmup=warmup, decay=decay)
    whole(warmup_stable_decay.require, 0, stable=stable)
    _check_fall(warmup_stable_decay.require, peak, floor)


@equation(
    r"\eta = \min\left(1, \frac{t}{w}\right)\left(f + (p - f)(1 - u)\right), \quad u = \frac{t - w}{T - w} \in [0, 1]",
    meaning="The learning rate climbs in a straight line, then falls in a straight line.",
    intuition="A tent: one rope up to the pole, one rope down to the ground.",
    symbols={
        "step": "t, the step, from 1",
        "warmup": "w, steps of climbing",
        "total": "T, the step at which the floor is reached",
        "peak": "p, highest rate",
        "floor": "f, last rate",
        "rate": "η, the learning rate",
    },
)
def linear_schedule(step: int, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
    """Warm up to the peak at step `warmup`, then fall straight to the floor at step `total`, stay (BERT, 2018)."""
    return warmup_stable_decay.fn(step, warmup, 0, total - warmup, peak, floor)


@linear_schedule.def_cell
def _linear_schedule_cell(index: tuple[int, ...], step: int, warmup: int, total: int, peak: float, floor: float) -> str:
    u = number(schedule_progress.fn(step, warmup, total))
    return f"min(1, {step}/{warmup})·({number(floor)} + ({number(peak)} − {number(floor)})·(1 − {u}))"


@linear_schedule.def_check
def _linear_schedule_check(step: int, warmup: int, total: int, peak: float, floor: float) -> None:
    whole(linear_schedule.require, step=step, warmup=warmup, total=total)
    linear_schedule.require(total > warmup, "total", total, f"a step after warmup = {warmup}")
    _check_fall(linear_schedule.require, peak, floor)


@equation(
    r"\eta = \min\left(1, \frac{t}{w}\right)\left(f + (p - f)\frac{1 + \cos \pi u}{2}\right), "
    r"\quad u = \frac{t - w}{T - w} \in [0, 1]",
    meaning="The learning rate climbs in a straight line, then falls along half a wave.",
    intuition="A swing on its way down: slow to leave the top, quick in the middle, gentle at the end.",
    symbols={
        "step": "t, the step, from 1",
        "warmup": "w, steps of climbing",
        "total": "T, the step at which the floor is reached",
        "peak": "p, highest rate",
        "floor": "f, last rate",
        "rate": "η, the learning rate",
    },
)
def cosine_schedule(step: int, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
    """Warm up to the peak at step `warmup`, follow half a cosine to the floor at step `total`, stay (SGDR, 2017)."""
    u = schedule_progress.fn(step, warmup, total)
    return linear_warmup.fn(step, warmup, floor + (peak - floor) * (1 + math.cos(math.pi * u)) / 2)


@cosine_schedule.def_cell
def _cosine_schedule_cell(index: tuple[int, ...], step: int, warmup: int, total: int, peak: float, floor: float) -> str:
    u = number(schedule_progress.fn(step, warmup, total))
    fall = f"({number(peak)} − {number(floor)})·(1 + cos(π·{u}))/2"
    return f"min(1, {step}/{warmup})·({number(floor)} + {fall})"


@cosine_schedule.def_check
def _cosine_schedule_check(step: int, warmup: int, total: int, peak: float, floor: float) -> None:
    whole(cosine_schedule.require, step=step, warmup=warmup, total=total)
    cosine_schedule.require(total > warmup, "total", total, f"a step after warmup = {warmup}")
    _check_fall(cosine_schedule.require, peak, floor)


@equation(
    r"\beta_t = \min\left(\beta,\; \frac{1 + t}{10 + t}\right)",
    meaning="A moving average of the weights forgets fast at first, so that it soon leaves the random weights behind.",
    intuition="A newcomer changes first impressions quickly; a settled opinion moves slowly.",
    symbols={
        "step": "t, the step, from 1",
        "decay": "β, decay of a long average",
        "beta_t": "decay to use at this step",
    },
    where={"step": whole, "decay": below_one},
)
def ema_warmup(step: int, decay: float) -> float:
    """Warm up the decay of an exponential moving average (EMA) of the weights, as TensorFlow does (Abadi et al., 2016).

    Without it, an average with a decay of 0.999 still consists of 82 % initial weights after 200 steps.
    """
    return min(decay, (1 + step) / (10 + step))


@ema_warmup.def_cell
def _ema_warmup_cell(index: tuple[int, ...], step: int, decay: float) -> str:
    return f"min({number(decay)}, (1 + {step})/(10 + {step}))"


def _check_fall(require: Require, peak: float, floor: float) -> None:
    not_negative(require, peak=peak, floor=floor)
    require(floor <= peak, "floor", floor, f"at most the peak, {peak}")
