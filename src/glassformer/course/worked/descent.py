"""Slopes, steps downhill, and what depth does to a slope."""

import math

import torch
from torch import Tensor

from glassformer.course.worked.recomputing import CLAIMS, Answer, Given, recomputes
from glassformer.equation import no_checks
from glassformer.equations.algebra import multiply, residual
from glassformer.equations.gradients import difference_quotient, line
from glassformer.equations.optimizers import gradient_descent
from glassformer.equations.schedules import noam_learning_rate
from glassformer.equations.similarity import inner_product
from glassformer.recording import Tape


def _square(x: Tensor) -> tuple[Tensor, Tensor]:
    """A number times itself, and the slope there."""
    with Tape() as tape:
        f = multiply(x, x)
    return f, tape.reverse()[x]


def _descend(x: Tensor, rate: float, steps: int) -> list[Tensor]:
    """Where gradient descent on the square has been, the start included."""
    points = [x]
    with no_checks():  # what holds for one step holds for a thousand
        for _ in range(steps):
            points.append(gradient_descent(points[-1], _square(points[-1])[1], rate))
    return points


@recomputes("noam-learning-rate")
def _noam_learning_rate(given: Given) -> Answer:
    dim, warmup = given.get("d", int), given.get("warmup_steps", int)
    with no_checks():  # thousands of calls that differ in nothing but the step
        peak_step = max(range(1, 2 * warmup), key=lambda step: noam_learning_rate(step, dim, warmup))
    return {
        "lr": [noam_learning_rate(step, dim, warmup) for step in given.get("step", list[int])],
        "peak_step": peak_step,
        "peak_lr": noam_learning_rate(peak_step, dim, warmup),
    }


@recomputes("line-slope-meaning")
def _line_slope_meaning(given: Given) -> Answer:
    b, step = given.get("b", float), given.get("delta_x", float)
    x = torch.zeros((), dtype=torch.float64)
    return {"delta_y": [line(x + step, m, b) - line(x, m, b) for m in given.get("m", list[float])]}


@recomputes("derivative-limit-x2")
def _derivative_limit_x2(given: Given) -> Answer:
    x = given.tensor("x")
    here, slope = _square(x)
    steps = given.get("h", list[float])
    return {"quotient": [difference_quotient(multiply(x + h, x + h), here, h) for h in steps], "derivative": slope}


@recomputes("gd-x2-first-iterates")
def _gd_x2_first_iterates(given: Given) -> Answer:
    steps = given.get("k", list[int])
    points = _descend(given.tensor("x0"), given.get("alpha", float), max(steps) + 1)
    return {
        "x": [points[k] for k in steps],
        "f": [_square(points[k])[0] for k in steps],
        "slope": [_square(points[k])[1] for k in steps],
        "x_new": [points[k + 1] for k in steps],
    }


@recomputes("gd-x2-iteration-10")
def _gd_x2_iteration_10(given: Given) -> Answer:
    x = _descend(given.tensor("x0"), given.get("alpha", float), given.get("k", int))[-1]
    return {"x": x, "f": multiply(x, x)}


@recomputes("gd-x2-all-iterates")
def _gd_x2_all_iterates(given: Given) -> Answer:
    points = _descend(given.tensor("x0"), given.get("alpha", float), given.get("steps", int))
    return {"x": points, "f": [multiply(x, x) for x in points]}


@recomputes("gd-two-variable")
def _gd_two_variable(given: Given) -> Answer:
    point = given.tensor("point")
    with Tape() as tape:
        f = inner_product(point, point)
    gradient = tape.reverse()[point]
    new = gradient_descent(point, gradient, given.get("alpha", float))
    return {"f": f, "gradient": gradient, "new_point": new, "new_f": inner_product(new, new)}


@recomputes("learning-rate-regimes")
def _learning_rate_regimes(given: Given) -> Answer:
    start = given.tensor("x0")
    ends = [_descend(start, rate, given.get("k", int))[-1] for rate in given.get("alpha", list[float])]
    diverges = [bool(x.abs() > start.abs()) for x in ends]
    crawls = bool(ends[-1] / start > 0.9)  # noqa: PLR2004 - most of the way is still to go
    return {"x_10": ends, "diverges": diverges, CLAIMS: {"claim": diverges[0] and crawls}}


@recomputes("gradient-flow-euler")
def _gradient_flow_euler(given: Given) -> Answer:
    start, time = given.tensor("x0"), given.get("t", float)
    euler = [_descend(start, rate, round(time / rate))[-1] for rate in given.get("eta", list[float])]
    exact = start * math.exp(-2 * time)
    error = [(x - exact).abs().item() for x in euler]
    return {
        "euler": euler,
        "exact": exact,
        "error": error,
        CLAIMS: {"claim": error == sorted(error, reverse=True) and error[-1] < error[0] / 10},
    }


@recomputes("residual-gradient-path")
def _residual_gradient_path(given: Given) -> Answer:
    start = torch.ones((), dtype=torch.float64)
    slope, layers = given.get("F_slope", float), range(given.get("layers", int))
    with Tape() as plain_tape:
        h = start
        for _ in layers:
            h = line(h, slope)
    with Tape() as residual_tape:
        h = start
        for _ in layers:
            h = residual(h, line(h, slope))
    plain, past = plain_tape.reverse()[start], residual_tape.reverse()[start]
    return {"plain": plain, "residual": past, CLAIMS: {"claim": bool(past >= 1) and bool(plain < past)}}


@recomputes("scaled-residual-growth")
def _scaled_residual_growth(given: Given) -> Answer:
    slope, layers = given.get("F_slope", float), range(given.get("layers", int))
    growth: list[float] = []
    for alpha in given.get("alpha", list[float]):
        h = torch.ones((), dtype=torch.float64)
        for _ in layers:
            h = residual(h, line(h, slope), alpha)
        growth.append(h.item())
    return {"growth": growth, CLAIMS: {"claim": growth == sorted(growth, reverse=True)}}
