"""Momentum: descent with inertia, and why it converges."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.algebra import multiply
from glassformer.equations.gradients import line
from glassformer.equations.optimizers import gradient_descent, momentum
from glassformer.equations.similarity import l2_norm


class MomentumWalk(Walk):
    """Plain descent follows a stream; momentum gives it mass. What that gains, and how much is too much."""

    @step(
        "A stream and a ball",
        like="Honey runs down the slope and stops where the slope stops; a marble arrives with speed.",
    )
    def stream_and_ball(self) -> None:
        """Descent with ever smaller steps becomes a flow whose velocity is the negative gradient. Give the point a
        mass, and the gradient changes its velocity instead, while friction slows it down. Cut that motion into short
        time steps and the update of momentum comes out: the momentum coefficient is one minus friction times the time
        step, and the learning rate is the square of the time step.
        """
        begin, friction = self.tensor([3.0]), 2.0
        rows = []
        for dt in (0.2, 0.1, 0.05):
            x, velocity = begin, torch.zeros_like(begin)
            for _ in range(round(1 / dt)):
                x, velocity = momentum(x, x, velocity, dt**2, 1 - friction * dt)
            exact = float(begin[0]) * 2 * math.exp(-1)  # of a critically damped ball after time one: (1 + t)·e^−t
            rows.append((dt, x[0], abs(float(x[0]) - exact)))
        self.show(x, (0,))
        self.table(("time step", "where the ball is at time one", "off by"), rows)
        self.say(f"The ball of the differential equation is at {number(exact)}.")
        errors = [row[2] for row in rows]
        self.claim("shorter time steps come nearer to the motion itself", errors == sorted(errors, reverse=True))

    @step(
        "On a steady slope it gathers speed",
        like="A cyclist on a long descent: faster and faster, until the wind holds the balance.",
    )
    def gathers_speed(self) -> None:
        """Where the gradient stays the same, it accumulates: each step keeps a fraction of the velocity, the momentum
        coefficient, and adds the gradient again. The velocity settles at the gradient divided by one minus that
        coefficient. So momentum lengthens the step along any direction in which the gradients agree.
        """
        slope, beta = self.tensor([1.0]), float(self.tensor(0.9))
        x, velocity, speeds = self.tensor([0.0]), torch.zeros_like(slope), []
        for _ in range(60):
            x, velocity = momentum(x, slope, velocity, 0.1, beta)
            speeds.append(float(velocity))
        self.show(x, (0,))
        self.plot("speed on a steady slope", {"speed": (range(len(speeds)), speeds)})
        limit = line(slope, 1 / (1 - beta))
        self.show(limit, (0,))
        self.same(
            "after sixty steps the speed is within one percent of its limit", speeds[-1] / limit, 1.0, within=0.01
        )

    @step(
        "Why it converges sooner",
        like="A swing in honey creeps home; the same swing with the right damping is home in one sweep.",
    )
    def why_it_converges_sooner(self) -> None:
        """In a valley with one steep and one flat direction the learning rate is limited by the steep one, and the flat
        one has to crawl. Each plain step multiplies the distance by a number near one, however the rate is chosen. With
        momentum both directions shrink by the square root of the momentum coefficient, and the best coefficient depends
        only on the square root of the ratio of curvatures, the condition number.
        """
        self.curvature = self.tensor([1.0, 25.0])
        low, high = self.curvature.tolist()
        ratio, root = high / low, math.sqrt(high / low)
        self.formula = ((ratio - 1) / (ratio + 1), (root - 1) / (root + 1))
        plain = _shrinking(self, lambda x, v: (gradient_descent(x, multiply(self.curvature, x), 2 / (low + high)), v))
        rate, beta = (2 / (math.sqrt(low) + math.sqrt(high))) ** 2, self.formula[1] ** 2
        heavy = _shrinking(self, lambda x, v: momentum(x, multiply(self.curvature, x), v, rate, beta))
        self.show(
            momentum(self.tensor([1.0, 1.0]), self.curvature, torch.zeros_like(self.curvature), rate, beta)[0], (0,)
        )
        self.table(
            ("method at its best", "factor per step, by formula", "measured"),
            [("plain", self.formula[0], plain[1]), ("momentum", self.formula[1], heavy[1])],
        )
        self.plot(
            "distance from the bottom",
            {"plain": (range(len(plain[0])), plain[0]), "momentum": (range(len(heavy[0])), heavy[0])},
            logarithmic=True,
        )
        self.same("plain descent shrinks as the formula says", plain[1], self.formula[0], within=0.005)
        self.same("momentum nearly so", heavy[1], self.formula[1], within=0.05)
        self.less("and it shrinks faster", heavy[1], plain[1])

    @step(
        "How much is too much",
        like="Pushing a swing harder than the ropes allow: it goes higher each time, and then over the top.",
    )
    def how_much_is_too_much(self) -> None:
        """On a parabola plain descent converges while the learning rate times the curvature stays below two. Momentum
        widens that bound in proportion to one plus its coefficient. Just below the bound the point oscillates and comes
        to rest; just above it every swing is larger than the last, and the run diverges.
        """
        beta, steep = 0.8, self.tensor([4.0])
        bound = 2 * (1 + beta) / float(steep)
        ends = {}
        for name, rate in (("a little below the bound", 0.97 * bound), ("a little above it", 1.03 * bound)):
            x, velocity = self.tensor([1.0]), torch.zeros(1, dtype=torch.float64)
            for _ in range(200):
                x, velocity = momentum(x, multiply(steep, x), velocity, rate, beta)
            ends[name] = (rate, abs(float(x)))
        self.show(x, (0,))
        self.table(("rate", "is", "distance after the last step"), [(name, *end) for name, end in ends.items()])
        below, above = (end[1] for end in ends.values())
        self.less("below the bound it comes to rest", below, 0.01)
        self.less("above it, it diverges", 100.0, above)
        self.less("plain descent would have diverged at both", 2 / float(steep), 0.97 * bound)

    def quiz(self) -> None:
        """Questions on it."""
        x, speed, slope = self.tensor([1.0]), self.tensor([0.5]), self.tensor([2.0])
        self.ask(
            f"At {number(x[0])} with velocity {number(speed[0])} and gradient {number(slope[0])}, momentum "
            "coefficient nine tenths, learning rate one tenth: where does the step lead?",
            lambda: momentum(x, slope, speed, 0.1, 0.9)[0],
            "New velocity: nine tenths of the old one plus the gradient. Subtract a tenth of it.",
            cell=(0,),
        )
        self.ask(
            "A gradient of one, momentum coefficient three quarters: at what velocity does it settle?",
            lambda: line(self.tensor([1.0]), 1 / (1 - 0.75)),
            "The gradient divided by one minus the coefficient.",
            cell=(0,),
        )


def _shrinking(walk: Walk, update: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> tuple[list[float], float]:
    """Distances from the bottom over some steps, and by what factor a late step shrinks them on average."""
    x, velocity = walk.tensor([1.0, 1.0]), torch.zeros(2, dtype=torch.float64)
    distances = []
    for _ in range(60):
        distances.append(float(l2_norm(x)))
        x, velocity = update(x, velocity)
    return distances, (distances[-1] / distances[20]) ** (1 / (len(distances) - 21))
