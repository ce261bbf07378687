"""A sine fitted by a line and by a network."""

from itertools import pairwise

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.course.worked.networks import least_squares
from glassformer.course.worked.sine import RATE, STEPS, WIDTHS
from glassformer.equation import no_checks
from glassformer.equations.activations import relu
from glassformer.equations.adam import adam
from glassformer.equations.algebra import linear
from glassformer.equations.losses import mean_squared_error
from glassformer.equations.variance_scaling import xavier_uniform
from glassformer.recording import Tape


class SineWalk(Walk):
    """The best straight line through a sine explains almost nothing; a small network follows some of its humps."""

    @step("The task", like="Guessing a melody from single notes played out of order.")
    def task(self) -> None:
        """The data are points of a wave. The learner is not told that it is a sine; it sees only x and y."""
        self.x = self.tensor(torch.linspace(-10, 10, 100, dtype=torch.float64).tolist())[:, None]
        self.y = self.x.sin()
        self.say(f"There are {len(self.x)} points, from x = {number(self.x.min())} to x = {number(self.x.max())}.")
        self.claim("all heights lie between minus one and one", (self.y.abs() <= 1).all())
        self.plot("the wave", {"sin x": (self.x[:, 0].tolist(), self.y[:, 0].tolist())}, "x")

    @step("The best line", like="The average of day and night is dusk, and it describes neither.")
    def best_line(self) -> None:
        """Least squares finds the line with the smallest mean squared error. It is nearly flat: the humps above zero
        cancel the hollows below.
        """
        slope, intercept = least_squares(self.x, self.y)
        self.straight = linear(self.x, slope, intercept)
        self.error = mean_squared_error(self.straight, self.y)
        self.say(f"The slope is {number(slope[0, 0])}, and the mean squared error {number(self.error)}.")
        self.beside("linear-regression-vs-network-sin", slope=slope[0, 0], mse_linear=self.error)
        self.less("the slope is nearly zero", slope.abs().max(), 0.05)
        self.same("humps and hollows cancel: the mean is zero", self.y.mean(), 0.0)
        explained = 1 - self.error / mean_squared_error(self.y.mean().expand_as(self.y), self.y)
        self.less(f"the line explains only {number(explained)} of the variance", explained, 0.05)

    @step(
        "A network",
        like="A carpenter's rule with many joints can be laid along a curve that a straightedge only touches.",
    )
    def network_with_bends(self) -> None:
        """Two hidden layers of ReLU units and a linear output, trained by Adam on all points at once."""
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
            with no_checks(), Tape() as tape:
                hidden = relu(linear(relu(linear(self.x, *weights[:2])), *weights[2:4]))
                loss = mean_squared_error(linear(hidden, *weights[4:]), self.y)
            losses.append(float(loss))
            found = tape.reverse()
            with no_checks(), Tape():
                stepped = [adam(w, found[w], *averages[i], turn, RATE) for i, w in enumerate(weights)]
            weights, averages = [each[0] for each in stepped], [(each[1], each[2]) for each in stepped]
        self.curve = linear(relu(linear(relu(linear(self.x, *weights[:2])), *weights[2:4])), *weights[4:])
        self.last = mean_squared_error(self.curve, self.y)
        self.show(self.last)
        self.plot("loss while training", {"loss": (range(1, STEPS + 1), losses)})
        self.less("the loss falls", losses[-1], losses[0])
        self.weights = weights

    @step(
        "Where the kinks are",
        like="A straight road meets a straight river once at most; a winding road can cross it again and again.",
    )
    def where_the_kinks_are(self) -> None:
        """A unit of the first layer adds one kink, where its pre-activation crosses zero. A unit of the second layer
        sees a curve that already has kinks, and can cross zero several times. Enough kinks look like a curve.
        """
        fine = torch.linspace(float(self.x.min()), float(self.x.max()), 20001, dtype=self.x.dtype)[:, None]
        first = linear(fine, *self.weights[:2])
        second = linear(relu(first), *self.weights[2:4])
        kinks = [(layer[1:] > 0) != (layer[:-1] > 0) for layer in (first, second)]
        self.table(
            ("hidden layer", "units", "kinks of one unit at most", "kinks of all"),
            [(i + 1, layer.shape[-1], layer.sum(0).max(), layer.sum()) for i, layer in enumerate(kinks)],
        )
        self.claim("no unit of the first layer has more than one kink", kinks[0].sum(0).max() <= 1)
        self.claim("some unit of the second layer has several", kinks[1].sum(0).max() > 1)
        self.last_kink = fine[1:][torch.cat(kinks, -1).any(-1)].max()

    @step("Side by side", like="Tracing a coastline with a ruler, and with a piece of string.")
    def side_by_side(self) -> None:
        """A ReLU network is made of straight pieces. In the middle its pieces follow the wave; past its last kink it
        goes straight on, because it has not learned the humps there.
        """
        xs = self.x[:, 0].tolist()
        self.plot(
            "two fits of one wave",
            {
                "sin x": (xs, self.y[:, 0].tolist()),
                "line": (xs, self.straight[:, 0].tolist()),
                "network": (xs, self.curve[:, 0].tolist()),
            },
            "x",
        )
        self.say(f"Mean squared error of the line: {number(self.error)}. Of the network: {number(self.last)}.")
        self.claim("the network beats the line", self.last < self.error)
        beyond = (self.x > self.last_kink)[:, 0]
        bends = self.curve[beyond].diff(dim=0).diff(dim=0)
        self.same(f"past its last kink, at x = {number(self.last_kink)}, the network is straight", bends, 0.0)
        self.less(
            "its error is larger there than before",
            mean_squared_error(self.curve[~beyond], self.y[~beyond]),
            mean_squared_error(self.curve[beyond], self.y[beyond]),
        )

    def quiz(self) -> None:
        """Questions on it."""
        heights, flat = self.tensor([[1.0], [-1.0], [0.5], [-0.5]]), self.tensor([[0.0]] * 4)
        self.ask(
            f"A flat line at {number(flat[0, 0])} is to fit points at heights "
            f"{', '.join(number(height) for height in heights)}. What is its mean squared error?",
            lambda: mean_squared_error(flat, heights),
            "Square each distance, add them up, and divide by their number.",
        )
        at, m = self.tensor(3.0), 0.02
        self.ask(
            f"A line through the origin with slope {number(m)}: what is its height at x = {number(at)}?",
            lambda: linear(at[None], self.tensor([[m]])),
            "Slope times x.",
            cell=(0,),
        )
