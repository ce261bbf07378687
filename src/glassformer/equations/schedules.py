"""Schedules over the course of training: learning rates and the decay of a weight average. Steps count from 1."""

import math

from glassformer.arithmetic import number
from glassformer.equation import equation
from glassformer.equations.ranges import Require, at_least, below_one, not_negative, whole

_WARMUP_AND_DECAY = {
    "step=t": "t, the step, from 1",
    "warmup=w": "w, warmup steps",
    "total=T": "T, the step at which the floor is reached",
    "peak=p": "p, highest rate",
    "floor=f": "f, last rate",
    r"rate=\eta": "η, the learning rate",
}


def _falls(require: Require, /, peak: float, floor: float) -> None:
    not_negative(require, peak=peak, floor=floor)
    require(floor <= peak, "floor", floor, f"at most the peak, {peak}")


def _after_warmup(require: Require, /, warmup: int, total: int) -> None:
    require(total > warmup, "total", total, f"a step after warmup = {warmup}")


@equation(
    r"\eta = d^{-1/2} \min\left(t^{-1/2},\; t \, w^{-3/2}\right)",
    meaning="The learning rate rises linearly, then falls with the inverse square root of the step.",
    intuition="Ease a cold engine up to speed, then let the car coast down by itself.",
    symbols={
        "step=t": "t, the step, from 1",
        "dim=d": "d, model dimension",
        "warmup=w": "w, warmup steps",
        r"rate=\eta": "η, the learning rate",
    },
    where={"step dim warmup": whole},
)
def noam_learning_rate(step: int, dim: int, warmup: int) -> float:
    """Learning rate of the original Transformer, highest at the end of the warmup (Vaswani et al., 2017).

    Step 0 has no rate: the first update is step 1.
    """
    return dim**-0.5 * min(step**-0.5, step * warmup**-1.5)


noam_learning_rate.def_cell(lambda index, step, dim, warmup: f"{dim}^(−0.5)·min({step}^(−0.5), {step}·{warmup}^(−1.5))")


@equation(
    r"\eta = p \min\left(1,\; t / w\right)",
    meaning="The learning rate rises linearly to its peak and stays there.",
    intuition="A tap opened a little further with every step until it is fully open.",
    symbols={
        "step=t": "t, the step, from 1",
        "warmup=w": "w, warmup steps",
        "peak=p": "p, highest rate",
        r"rate=\eta": "η, the learning rate",
    },
    where={"step warmup": whole, "peak": not_negative},
)
def linear_warmup(step: int, warmup: int, peak: float) -> float:
    """Linear warmup to the peak, which is reached at step `warmup` (Goyal et al., 2017)."""
    return peak * min(1.0, step / warmup)


linear_warmup.def_cell(lambda index, step, warmup, peak: f"{number(peak)}·min(1, {step}/{warmup})")


@equation(
    r"\eta = p \min\left(\frac{t}{w},\; \sqrt{\frac{w}{t}}\right)",
    meaning="The learning rate rises linearly, then falls with the inverse square root of the step.",
    intuition="After the climb, four times as many steps are needed each time the rate is to halve.",
    symbols={
        "step=t": "t, the step, from 1",
        "warmup=w": "w, warmup steps",
        "peak=p": "p, highest rate",
        r"rate=\eta": "η, the learning rate",
    },
    where={"step warmup": whole, "peak": not_negative},
)
def inverse_square_root_schedule(step: int, warmup: int, peak: float) -> float:
    """The Noam schedule with its peak given instead of the model's dimension (Ott et al., 2019)."""
    return peak * min(step / warmup, math.sqrt(warmup / step))


@inverse_square_root_schedule.def_cell
def _inverse_square_root_schedule_cell(index: tuple[int, ...], step: int, warmup: int, peak: float) -> str:
    return f"{number(peak)}·min({step}/{warmup}, √({warmup}/{step}))"


@equation(
    r"u = \min\left(1,\; \max\left(0,\; \frac{t - a}{b - a}\right)\right)",
    meaning="How much of a range of steps is done: 0 before it, 1 after it.",
    intuition="The bar that fills up while a file is being copied.",
    symbols={
        "step=t": "t, the step",
        "start=a": "a, where it begins",
        "end=b": "b, where it ends",
        "u": "fraction done",
    },
    where={"step start end": at_least(0)},
)
def schedule_progress(step: int, start: int, end: int) -> float:
    """Progress of a step between two others, from 0 to 1."""
    return min(1.0, max(0.0, (step - start) / (end - start)))


schedule_progress.def_cell(lambda index, step, start, end: f"min(1, max(0, ({step} − {start})/({end} − {start})))")


@schedule_progress.def_check
def _schedule_progress_check(start: int, end: int) -> None:
    schedule_progress.require(end > start, "end", end, f"a step after start = {start}")


@equation(
    r"\eta = \min\left(1, \frac{t}{w}\right)\left(f + (p - f)(1 - u)\right), \quad u = \frac{t - w - s}{c} \in [0, 1]",
    meaning="The learning rate rises, stays at its peak for any number of steps, then falls linearly.",
    intuition="A train: it picks up speed, runs level for the whole journey, and brakes only when the station is near.",
    symbols={
        "step=t": "t, the step, from 1",
        "warmup=w": "w, warmup steps",
        "stable=s": "s, steps at the peak",
        "decay=c": "c, decay steps",
        "peak=p": "p, highest rate",
        "floor=f": "f, last rate",
        r"rate=\eta": "η, the learning rate",
    },
    where={"step warmup decay": whole, "stable": at_least(0), "peak floor": _falls},
)
def warmup_stable_decay(step: int, warmup: int, stable: int, decay: int, peak: float, floor: float = 0.0) -> float:
    """Warmup, stable, decay: the end of training is chosen late, when the decay begins (Hu et al., 2024)."""
    start = warmup + stable
    u = schedule_progress.fn(step, start, start + decay)
    return linear_warmup.fn(step, warmup, floor + (peak - floor) * (1 - u))


@warmup_stable_decay.def_cell
def _warmup_stable_decay_cell(
    index: tuple[int, ...], step: int, warmup: int, stable: int, decay: int, peak: float, floor: float
) -> str:
    fallen = f"min(1, max(0, ({step} − {warmup} − {stable})/{decay}))"
    return f"min(1, {step}/{warmup})·({number(floor)} + ({number(peak)} − {number(floor)})·(1 − {fallen}))"


@equation(
    r"\eta = \min\left(1, \frac{t}{w}\right)\left(f + (p - f)(1 - u)\right), \quad u = \frac{t - w}{T - w} \in [0, 1]",
    meaning="The learning rate rises linearly, then falls linearly.",
    intuition="A tent: one rope up to the pole, one rope down to the ground.",
    symbols=_WARMUP_AND_DECAY,
    where={"step warmup total": whole, "warmup total": _after_warmup, "peak floor": _falls},
)
def linear_schedule(step: int, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
    """Warm up to the peak at step `warmup`, then fall linearly to the floor at step `total` (BERT, 2018)."""
    return warmup_stable_decay.fn(step, warmup, 0, total - warmup, peak, floor)


@linear_schedule.def_cell
def _linear_schedule_cell(index: tuple[int, ...], step: int, warmup: int, total: int, peak: float, floor: float) -> str:
    u = number(schedule_progress.fn(step, warmup, total))
    return f"min(1, {step}/{warmup})·({number(floor)} + ({number(peak)} − {number(floor)})·(1 − {u}))"


@equation(
    r"\eta = \min\left(1, \frac{t}{w}\right)\left(f + (p - f)\frac{1 + \cos \pi u}{2}\right), "
    r"\quad u = \frac{t - w}{T - w} \in [0, 1]",
    meaning="The learning rate rises linearly, then falls along half a cosine.",
    intuition="A swing on its way down: slow to leave the top, quick in the middle, gentle at the end.",
    symbols=_WARMUP_AND_DECAY,
    where={"step warmup total": whole, "warmup total": _after_warmup, "peak floor": _falls},
)
def cosine_schedule(step: int, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
    """Warm up to the peak at step `warmup`, then follow half a cosine to the floor at step `total` (SGDR, 2017)."""
    u = schedule_progress.fn(step, warmup, total)
    return linear_warmup.fn(step, warmup, floor + (peak - floor) * (1 + math.cos(math.pi * u)) / 2)


@cosine_schedule.def_cell
def _cosine_schedule_cell(index: tuple[int, ...], step: int, warmup: int, total: int, peak: float, floor: float) -> str:
    u = number(schedule_progress.fn(step, warmup, total))
    fall = f"({number(peak)} − {number(floor)})·(1 + cos(π·{u}))/2"
    return f"min(1, {step}/{warmup})·({number(floor)} + {fall})"


@equation(
    r"\beta_t = \min\left(\beta,\; \frac{1 + t}{10 + t}\right)",
    meaning="A moving average of the weights forgets fast at first, so that it soon leaves the random weights behind.",
    intuition="A newcomer changes first impressions quickly; a settled opinion moves slowly.",
    symbols={
        "step=t": "t, the step, from 1",
        r"decay=\beta": "β, decay of a long average",
        r"beta_t=\beta_t": "decay at this step",
    },
    where={"step": whole, "decay": below_one},
)
def ema_warmup(step: int, decay: float) -> float:
    """Warm up the decay of an exponential moving average (EMA) of the weights, as TensorFlow does (Abadi et al., 2016).

    Without it, an average with a decay of 0.999 still consists of 82 % initial weights after 200 steps.
    """
    return min(decay, (1 + step) / (10 + step))


ema_warmup.def_cell(lambda index, step, decay: f"min({number(decay)}, (1 + {step})/(10 + {step}))")
