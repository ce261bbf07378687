"""Adam and schedules."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.adaptive import adam, adamw, bias_correction, moving_mean_square, normalized_descent, rmsprop
from glassformer.equations.algebra import multiply
from glassformer.equations.initialization import he_normal, xavier_uniform
from glassformer.equations.optimizers import exponential_moving_average, gradient_descent
from glassformer.equations.schedules import cosine_schedule, noam_learning_rate, warmup_stable_decay
from glassformer.equations.similarity import inner_product
from glassformer.lessons.walk import Walk


def walk_adam(walk: Walk) -> None:
    """A step length for each parameter, a learning rate that changes with time, and a good place to start."""
    walk.step(
        "Two averages",
        "Adam remembers two things about each parameter: which way its slope usually points, and how large it usually "
        "is. Both are running averages in which old news fades.",
        like="Knowing a colleague: what they tend to say, and how loudly they tend to say it.",
    )
    theta, g = walk.tensor([1.0, 1.0]), walk.tensor([0.1, -20.0])
    m = exponential_moving_average(torch.zeros_like(g), g, 0.9)
    v = moving_mean_square(torch.zeros_like(g), g, 0.999)
    walk.show(m, (0,), (1,))
    walk.show(v, (0,), (1,))

    walk.step(
        "Correct the cold start",
        "Averages that begin at zero are too small at first, and by how much is known exactly: divide it out.",
        like="A new shop's average weekly takings: divide by the weeks it has been open, not by fifty-two.",
    )
    m_hat, v_hat = bias_correction(m, 0.9, 1), bias_correction(v, 0.999, 1)
    walk.show(m_hat, (0,))
    walk.show(v_hat, (0,))
    walk.claim("after one step the corrected average is the gradient itself", float((m_hat - g).abs().max()) < 1e-12)

    walk.step(
        "Step in units of the usual slope",
        "One slope here is two hundred times the other, and yet both parameters move by the same length. The rate now "
        "means the same for all of them.",
        like="Raising every salary by the same percentage of what each is used to.",
    )
    new = normalized_descent(theta, m_hat, v_hat, 0.1)
    whole, *_ = adam(theta, g, torch.zeros_like(g), torch.zeros_like(g), 1, 0.1)
    walk.show(new, (0,), (1,))
    walk.claim("the whole equation gives the same as its parts", float((whole - new).abs().max()) < 1e-12)
    plain = gradient_descent(theta, g, 0.1)
    walk.say(f"Plain descent would have moved the second to {number(plain[1])}.")

    walk.step(
        "In a narrow valley",
        "The valley of the descent lesson again, twenty times as steep across as along. Plain descent must step as short "
        "as the steep side demands; RMSprop and Adam do not.",
        like="Skis with an edge for each foot.",
    )
    steepness, starts = walk.tensor([1.0, 20.0]), walk.tensor([3.0, 1.0])
    points = {"plain": starts, "rmsprop": starts, "adam": starts}
    m = v = square = torch.zeros_like(starts)
    heights: dict[str, list[float]] = {name: [] for name in points}
    for step in range(1, 41):
        slopes = {}
        for name, point in points.items():
            height = inner_product(multiply(steepness, point), point)
            heights[name].append(float(height))
            slopes[name] = walk.back(height)[point]
        points["plain"] = gradient_descent(points["plain"], slopes["plain"], 0.02)
        points["rmsprop"], square = rmsprop(points["rmsprop"], slopes["rmsprop"], square, 0.1)
        points["adam"], m, v = adam(points["adam"], slopes["adam"], m, v, step, 0.2)
    walk.plot("height", {name: (range(40), values) for name, values in heights.items()}, logarithmic=True)
    walk.table(("", "lowest height reached"), [(name, min(values)) for name, values in heights.items()])
    walk.claim("all of them come down", all(min(values) < values[0] / 10 for values in heights.values()))

    walk.step(
        "Shrink, outside the averages",
        "Weight decay pulls every parameter a little towards zero. AdamW does it beside the step, so that parameters with "
        "large slopes are not excused from it.",
        like="Rent, which is due whatever business was like.",
    )
    decayed, *_ = adamw(theta, torch.zeros_like(g), torch.zeros_like(g), torch.zeros_like(g), 1, 0.1, decay=0.5)
    walk.show(decayed)
    walk.claim("without any slope the weights still shrink", bool((decayed < theta).all()))

    walk.step(
        "A rate that changes",
        "At first averages are unreliable and steps should be short; then long; then shorter and shorter, to settle. The "
        "original schedule climbs in a line and falls with the root of the step.",
        like="Pulling away from the kerb, cruising, and braking early before the lights.",
    )
    given = walk.given("noam-learning-rate")
    dim, warmup = given.get("d", int), given.get("warmup_steps", int)
    rates = [noam_learning_rate(step, dim, warmup) for step in given.get("step", list[int])]
    walk.show(rates[2])
    walk.beside("noam-learning-rate", lr=rates)
    steps = range(100, 20001, 100)
    peak, total = noam_learning_rate(warmup, dim, warmup), 20000
    walk.plot("learning rate", {
        "original": (steps, [noam_learning_rate(step, dim, warmup) for step in steps]),
        "cosine": (steps, [cosine_schedule(step, warmup, total, peak) for step in steps]),
        "stable, then down": (steps, [warmup_stable_decay(step, warmup, 10000, 6000, peak) for step in steps]),
    })
    walk.claim("the peak is where warm-up ends", noam_learning_rate(warmup, dim, warmup) > noam_learning_rate(warmup + 50, dim, warmup))

    walk.step(
        "Where to start",
        "First weights are random, and their spread matters: too small and signals die out from layer to layer, too "
        "large and they blow up. Xavier keeps the size on straight layers; He allows for the half that ReLU drops.",
        like="Tuning a string before the concert: neither slack nor about to snap.",
    )
    random = torch.Generator().manual_seed(0)
    even, half = xavier_uniform(256, 256, random, torch.float64), he_normal(256, 256, random, torch.float64)
    walk.table(("", "variance times inputs"), [("xavier", even.var() * 256), ("he", half.var() * 256)])
    walk.claim("xavier keeps a signal's variance", abs(float(even.var() * 256) - 1) < 0.05)
    walk.claim("he doubles it, since ReLU halves it", abs(float(half.var() * 256) - 2) < 0.1)

    past, now, beta = walk.tensor([1.0]), walk.tensor([3.0]), 0.9
    walk.ask(f"A running average at {number(past[0])} meets {number(now[0])}, with decay {number(beta)}. What is it now?",
             lambda: exponential_moving_average(past, now, beta), "Nine tenths of the old, one tenth of the new.", cell=(0,))
    width, climb = 256, 100
    walk.ask(f"The original schedule with width {width} and {climb} steps of warm-up: the rate at step {climb}?",
             lambda: noam_learning_rate(climb, width, climb), "One over the root of the width, over the root of the step.", tolerance=1e-4)
    walk.ask(f"With decay {number(beta)}, what does correction make of an average of {number(past[0])} after one step?",
             lambda: bias_correction(past, beta, 1), "Divide by one tenth.", cell=(0,))
