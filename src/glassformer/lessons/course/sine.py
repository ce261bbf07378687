"""A wave drawn by a line and by a network."""

from itertools import pairwise

import torch

from glassformer.arithmetic import number
from glassformer.equations.activations import relu
from glassformer.equations.adaptive import adam
from glassformer.equations.algebra import linear
from glassformer.equations.initialization import xavier_uniform
from glassformer.equations.losses import mean_squared_error
from glassformer.lessons.walk import Walk, step
from glassformer.recording import Tape, unchecked
from glassformer.worked.networks import least_squares
from glassformer.worked.sine import RATE, STEPS, WIDTHS


class SineWalk(Walk):
    """The best straight line through a sine says almost nothing; a small network follows its humps."""

    @step("The task", like="Guessing a melody from single notes played out of order.")
    def task(self) -> None:
        """A hundred points of a wave. Nobody tells the learner that it is a sine; it sees places and heights."""
        self.x = self.tensor(torch.linspace(-10, 10, 100, dtype=torch.float64).tolist())[:, None]
        self.y = self.x.sin()
        self.plot("the wave", {"sin x": (self.x[:, 0].tolist(), self.y[:, 0].tolist())}, "x")

    @step("The best line", like="The average of day and night is dusk, and it describes neither.")
    def best_line(self) -> None:
        """Least squares finds the line with the smallest mean squared error. It is nearly flat: the humps above cancel
        the hollows below.
        """
        slope, intercept = least_squares(self.x, self.y)
        self.straight = linear(self.x, slope, intercept)
        self.error = mean_squared_error(self.straight, self.y)
        self.say(f"The slope is {number(slope[0, 0])}, and the mean squared error {number(self.error)}.")
        self.beside("linear-regression-vs-network-sin", slope=slope[0, 0], mse_linear=self.error)

    @step(
        "A network with bends",
        like="A carpenter's rule with many joints can be laid along any curve that a straightedge only touches.",
    )
    def network_with_bends(self) -> None:
        """Two hidden layers of ten ReLU units and a linear output, trained by Adam on all points at once. Each unit
        adds one kink, and kinks enough make a curve.
        """
        generator = torch.Generator().manual_seed(0)
        weights = []
        for inputs, outputs in pairwise(WIDTHS):
            weights += [
                xavier_uniform(inputs, outputs, generator, torch.float64),
                torch.zeros(outputs, dtype=torch.float64),
            ]
        averages = [(torch.zeros_like(theta), torch.zeros_like(theta)) for theta in weights]
        losses = []
        for turn in range(1, STEPS + 1):
            with unchecked(), Tape() as tape:
                hidden = relu(linear(relu(linear(self.x, *weights[:2])), *weights[2:4]))
                loss = mean_squared_error(linear(hidden, *weights[4:]), self.y)
            losses.append(float(loss))
            found = tape.reverse()
            with unchecked(), Tape():
                stepped = [adam(w, found[w], *averages[i], turn, RATE) for i, w in enumerate(weights)]
            weights, averages = [each[0] for each in stepped], [(each[1], each[2]) for each in stepped]
        self.curve = linear(relu(linear(relu(linear(self.x, *weights[:2])), *weights[2:4])), *weights[4:])
        self.last = mean_squared_error(self.curve, self.y)
        self.show(self.last)
        self.plot("loss while training", {"loss": (range(1, STEPS + 1), losses)})

    @step("Side by side", like="Tracing a coastline with a ruler, and with a piece of string.")
    def side_by_side(self) -> None:
        """The line is the same everywhere; the network bends where the wave bends. Where it has not yet learned a hump
        it goes straight on: a ReLU network is made of straight pieces.
        """
        places = self.x[:, 0].tolist()
        self.plot(
            "two fits of one wave",
            {
                "sin x": (places, self.y[:, 0].tolist()),
                "line": (places, self.straight[:, 0].tolist()),
                "network": (places, self.curve[:, 0].tolist()),
            },
            "x",
        )
        self.say(f"Mean squared error of the line: {number(self.error)}. Of the network: {number(self.last)}.")
        self.claim("the network beats the line", self.last < self.error)

    def quiz(self) -> None:
        """Questions on it."""
        self.ask(
            "What is the mean squared error of the best line?",
            lambda: mean_squared_error(self.straight, self.y),
            "It explains almost nothing, so it is close to the mean of the squared sine.",
        )
        at, m = self.tensor(3.0), 0.02
        self.ask(
            f"A line through the origin with slope {number(m)}: what is its height at x = {number(at)}?",
            lambda: linear(at[None], self.tensor([[m]])),
            "Slope times x.",
            cell=(0,),
        )
