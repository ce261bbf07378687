"""Momentum: descent with inertia, and why it converges."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.equations.algebra import line, multiply
from glassformer.equations.optimizers import gradient_descent, momentum
from glassformer.equations.similarity import l2_norm
from glassformer.lessons.walk import Walk, step


class MomentumWalk(Walk):
    """Plain descent follows a stream; momentum gives it mass. What that gains, and how much is too much."""

    @step(
        "A stream and a ball",
        like="Honey runs down the slope and stops where the slope stops; a marble arrives with speed.",
    )
    def stream_and_ball(self) -> None:
        """Descent with ever smaller steps becomes a flow whose speed is the slope itself. Give the point a mass, and
        the slope changes its speed instead, while friction slows it down. Cut that motion into short moments and the
        update of momentum comes out: the share of the speed that is kept is one less friction times the moment, the
        learning rate the square of the moment.
        """
        begin, friction = self.tensor([3.0]), 2.0
        rows = []
        for moment in (0.2, 0.1, 0.05):
            place, velocity = begin, torch.zeros_like(begin)
            for _ in range(round(1 / moment)):
                place, velocity = momentum(place, place, velocity, moment**2, 1 - friction * moment)
            exact = float(begin[0]) * 2 * math.exp(-1)  # of a critically damped ball after time one: (1 + t)·e^−t
            rows.append((moment, place[0], abs(float(place[0]) - exact)))
        self.show(place, (0,))
        self.table(("moment", "where the ball is at time one", "off by"), rows)
        self.say(f"The ball of the differential equation is at {number(exact)}.")
        errors = [row[2] for row in rows]
        self.claim("shorter moments come nearer to the motion itself", errors == sorted(errors, reverse=True))

    @step(
        "On a steady slope it gathers speed",
        like="A cyclist on a long descent: faster and faster, until the wind holds the balance.",
    )
    def gathers_speed(self) -> None:
        """Where the slope stays the same, its pieces add up: each step keeps a share of the speed and adds the slope
        again. The sum settles at the slope divided by one less that share. So momentum multiplies the step along any
        direction in which the gradients agree.
        """
        slope, kept = self.tensor([1.0]), float(self.tensor(0.9))
        place, velocity, speeds = self.tensor([0.0]), torch.zeros_like(slope), []
        for _ in range(60):
            place, velocity = momentum(place, slope, velocity, 0.1, kept)
            speeds.append(float(velocity))
        self.show(place, (0,))
        self.plot("speed on a steady slope", {"speed": (range(len(speeds)), speeds)})
        limit = line(slope, 1 / (1 - kept))
        self.show(limit, (0,))
        self.same(
            "after sixty steps the speed is within one percent of its limit", speeds[-1] / limit, 1.0, within=0.01
        )

    @step(
        "Why it converges sooner",
        like="A swing in honey creeps home; the same swing with the right damping is home in one sweep.",
    )
    def why_it_converges_sooner(self) -> None:
        """In a valley with one steep and one flat direction the rate is limited by the steep one, and the flat one has
        to crawl. Each plain step multiplies the distance by a number near one, however the rate is chosen. With
        momentum both directions shrink by the root of the kept share, and the best share depends on the root of the
        steepness ratio only.
        """
        self.steepness = self.tensor([1.0, 25.0])
        low, high = self.steepness.tolist()
        ratio, root = high / low, math.sqrt(high / low)
        self.formula = ((ratio - 1) / (ratio + 1), (root - 1) / (root + 1))
        plain = _shrinking(self, lambda x, v: (gradient_descent(x, multiply(self.steepness, x), 2 / (low + high)), v))
        rate, kept = (2 / (math.sqrt(low) + math.sqrt(high))) ** 2, self.formula[1] ** 2
        heavy = _shrinking(self, lambda x, v: momentum(x, multiply(self.steepness, x), v, rate, kept))
        self.show(
            momentum(self.tensor([1.0, 1.0]), self.steepness, torch.zeros_like(self.steepness), rate, kept)[0], (0,)
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
        """On a parabola plain descent converges while the rate times the steepness stays below two. Momentum widens
        that bound by the kept share. Just below the bound the point swings and comes to rest; just above it every
        swing is larger than the last.
        """
        kept, steep = 0.8, self.tensor([4.0])
        bound = 2 * (1 + kept) / float(steep)
        ends = {}
        for name, rate in (("a little below the bound", 0.97 * bound), ("a little above it", 1.03 * bound)):
            place, velocity = self.tensor([1.0]), torch.zeros(1, dtype=torch.float64)
            for _ in range(200):
                place, velocity = momentum(place, multiply(steep, place), velocity, rate, kept)
            ends[name] = (rate, abs(float(place)))
        self.show(place, (0,))
        self.table(("rate", "is", "distance after the last step"), [(name, *end) for name, end in ends.items()])
        below, above = (end[1] for end in ends.values())
        self.less("below the bound it comes to rest", below, 0.01)
        self.less("above it, it runs away", 100.0, above)
        self.less("plain descent would have run away at both", 2 / float(steep), 0.97 * bound)

    def quiz(self) -> None:
        """Questions on it."""
        place, speed, slope = self.tensor([1.0]), self.tensor([0.5]), self.tensor([2.0])
        self.ask(
            f"At {number(place[0])} with speed {number(speed[0])} and slope {number(slope[0])}, share kept "
            f"nine tenths, "
            "rate one tenth: where does the step lead?",
            lambda: momentum(place, slope, speed, 0.1, 0.9)[0],
            "New speed: nine tenths of the old one plus the slope. Subtract a tenth of it.",
            cell=(0,),
        )
        self.ask(
            "A slope of one, share kept three quarters: at what speed does it settle?",
            lambda: line(self.tensor([1.0]), 1 / (1 - 0.75)),
            "The slope divided by one less the share.",
            cell=(0,),
        )


def _shrinking(walk: Walk, update: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> tuple[list[float], float]:
    """Distances from the bottom over some steps, and by what factor a late step shrinks them on average."""
    place, velocity = walk.tensor([1.0, 1.0]), torch.zeros(2, dtype=torch.float64)
    distances = []
    for _ in range(60):
        distances.append(float(l2_norm(place)))
        place, velocity = update(place, velocity)
    return distances, (distances[-1] / distances[20]) ** (1 / (len(distances) - 21))
