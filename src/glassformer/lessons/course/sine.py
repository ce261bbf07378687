"""A wave drawn by a line and by a network."""

from itertools import pairwise

import torch

from glassformer.arithmetic import number
from glassformer.equations.activations import relu
from glassformer.equations.adaptive import adam
from glassformer.equations.algebra import linear
from glassformer.equations.initialization import xavier_uniform
from glassformer.equations.losses import mean_squared_error
from glassformer.lessons.walk import Walk
from glassformer.recording import Tape, unchecked
from glassformer.worked.networks import least_squares
from glassformer.worked.sine import RATE, STEPS, WIDTHS


def walk_sine(walk: Walk) -> None:
    """The best straight line through a sine says almost nothing; a small network follows its humps."""
    walk.step(
        "The task",
        "A hundred points of a wave. Nobody tells the learner that it is a sine; it sees places and heights.",
        like="Guessing a melody from single notes played out of order.",
    )
    x = torch.linspace(-10, 10, 100, dtype=torch.float64)[:, None]
    y = x.sin()
    walk.plot("the wave", {"sin x": (x[:, 0].tolist(), y[:, 0].tolist())}, "x")

    walk.step(
        "The best line",
        "Least squares finds the line with the smallest mean squared error. It is nearly flat: the humps above cancel "
        "the hollows below.",
        like="The average of day and night is dusk, and it describes neither.",
    )
    slope, intercept = least_squares(x, y)
    straight = linear(x, slope, intercept)
    error = mean_squared_error(straight, y)
    walk.say(f"The slope is {number(slope[0, 0])}, and the mean squared error {number(error)}.")
    walk.beside("linear-regression-vs-network-sin", slope=slope[0, 0], mse_linear=error)

    walk.step(
        "A network with bends",
        "Two hidden layers of ten ReLU units and a linear output, trained by Adam on all points at once. Each unit adds "
        "one kink, and kinks enough make a curve.",
        like="A carpenter's rule with many joints can be laid along any curve that a straightedge only touches.",
    )
    generator = torch.Generator().manual_seed(0)
    weights = []
    for inputs, outputs in pairwise(WIDTHS):
        weights += [xavier_uniform(inputs, outputs, generator, torch.float64), torch.zeros(outputs, dtype=torch.float64)]
    averages = [(torch.zeros_like(theta), torch.zeros_like(theta)) for theta in weights]
    losses = []
    for step in range(1, STEPS + 1):
        with unchecked(), Tape() as tape:
            hidden = relu(linear(relu(linear(x, *weights[:2])), *weights[2:4]))
            loss = mean_squared_error(linear(hidden, *weights[4:]), y)
        losses.append(float(loss))
        found = tape.reverse()
        with unchecked(), Tape():
            stepped = [adam(w, found[w], *averages[i], step, RATE) for i, w in enumerate(weights)]
        weights, averages = [each[0] for each in stepped], [(each[1], each[2]) for each in stepped]
    curve = linear(relu(linear(relu(linear(x, *weights[:2])), *weights[2:4])), *weights[4:])
    last = mean_squared_error(curve, y)
    walk.show(last)
    walk.plot("loss while training", {"loss": (range(1, STEPS + 1), losses)})

    walk.step(
        "Side by side",
        "The line is the same everywhere; the network bends where the wave bends. Where it has not yet learned a hump "
        "it goes straight on: a ReLU network is made of straight pieces.",
        like="Tracing a coastline with a ruler, and with a piece of string.",
    )
    places = x[:, 0].tolist()
    walk.plot("two fits of one wave", {
        "sin x": (places, y[:, 0].tolist()),
        "line": (places, straight[:, 0].tolist()),
        "network": (places, curve[:, 0].tolist()),
    }, "x")
    walk.say(f"Mean squared error of the line: {number(error)}. Of the network: {number(last)}.")
    walk.claim("the network beats the line", last < error)

    walk.ask("What is the mean squared error of the best line?", lambda: mean_squared_error(straight, y),
             "It explains almost nothing, so it is close to the mean of the squared sine.")
    at, m = walk.tensor(3.0), 0.02
    walk.ask(f"A line through the origin with slope {number(m)}: what is its height at x = {number(at)}?",
             lambda: linear(at[None], walk.tensor([[m]])), "Slope times x.", cell=(0,))
