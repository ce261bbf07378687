"""Adam and schedules."""

import torch

from glassformer.arithmetic import number
from glassformer.equations.adaptive import adam, adamw, bias_correction, moving_mean_square, normalized_descent, rmsprop
from glassformer.equations.algebra import multiply
from glassformer.equations.initialization import he_normal, xavier_uniform
from glassformer.equations.optimizers import exponential_moving_average, gradient_descent
from glassformer.equations.schedules import cosine_schedule, noam_learning_rate, warmup_stable_decay
from glassformer.equations.similarity import inner_product
from glassformer.lessons.walk import Walk, step


class AdamWalk(Walk):
    """A step length for each parameter, a learning rate that changes with time, and a good place to start."""

    @step("Two averages", like="Knowing a colleague: what they tend to say, and how loudly they tend to say it.")
    def two_averages(self) -> None:
        """Adam remembers two things about each parameter: which way its slope usually points, and how large it usually
        is. Both are running averages in which old news fades.
        """
        self.theta, self.g = self.tensor([1.0, 1.0]), self.tensor([0.1, -20.0])
        self.m = exponential_moving_average(torch.zeros_like(self.g), self.g, 0.9)
        self.v = moving_mean_square(torch.zeros_like(self.g), self.g, 0.999)
        self.show(self.m, (0,), (1,))
        self.show(self.v, (0,), (1,))

    @step(
        "Correct the cold start",
        like="A new shop's average weekly takings: divide by the weeks it has been open, not by fifty-two.",
    )
    def correct_the_cold_start(self) -> None:
        """Averages that begin at zero are too small at first, and by how much is known exactly: divide it out."""
        self.m_hat, self.v_hat = bias_correction(self.m, 0.9, 1), bias_correction(self.v, 0.999, 1)
        self.show(self.m_hat, (0,))
        self.show(self.v_hat, (0,))
        self.same("after one step the corrected average is the gradient itself", self.m_hat, self.g)

    @step(
        "Step in units of the usual slope",
        like="Raising every salary by the same percentage of what each is used to.",
    )
    def step_in_units(self) -> None:
        """One slope here is two hundred times the other, and yet both parameters move by the same length. The rate now
        means the same for all of them.
        """
        new = normalized_descent(self.theta, self.m_hat, self.v_hat, 0.1)
        whole, *_ = adam(self.theta, self.g, torch.zeros_like(self.g), torch.zeros_like(self.g), 1, 0.1)
        self.show(new, (0,), (1,))
        self.same("the whole equation gives the same as its parts", whole, new)
        plain = gradient_descent(self.theta, self.g, 0.1)
        self.say(f"Plain descent would have moved the second to {number(plain[1])}.")

    @step("In a narrow valley", like="Skis with an edge for each foot.")
    def in_a_narrow_valley(self) -> None:
        """The valley of the descent lesson again, twenty times as steep across as along. Plain descent must step as
        short as the steep side demands; RMSprop and Adam do not.
        """
        steepness, starts = self.tensor([1.0, 20.0]), self.tensor([3.0, 1.0])
        points = {"plain": starts, "rmsprop": starts, "adam": starts}
        m = v = square = torch.zeros_like(starts)
        heights: dict[str, list[float]] = {name: [] for name in points}
        for turn in range(1, 41):
            slopes = {}
            for name, point in points.items():
                height = inner_product(multiply(steepness, point), point)
                heights[name].append(float(height))
                slopes[name] = self.back(height)[point]
            points["plain"] = gradient_descent(points["plain"], slopes["plain"], 0.02)
            points["rmsprop"], square = rmsprop(points["rmsprop"], slopes["rmsprop"], square, 0.1)
            points["adam"], m, v = adam(points["adam"], slopes["adam"], m, v, turn, 0.2)
        self.plot("height", {name: (range(40), values) for name, values in heights.items()}, logarithmic=True)
        self.table(("", "lowest height reached"), [(name, min(values)) for name, values in heights.items()])
        self.claim("all of them come down", all(min(values) < values[0] / 10 for values in heights.values()))

    @step("Shrink, outside the averages", like="Rent, which is due whatever business was like.")
    def shrink_outside_the_averages(self) -> None:
        """Weight decay pulls every parameter a little towards zero. AdamW does it beside the step, so that parameters
        with large slopes are not excused from it.
        """
        decayed, *_ = adamw(
            self.theta, torch.zeros_like(self.g), torch.zeros_like(self.g), torch.zeros_like(self.g), 1, 0.1, decay=0.5
        )
        self.show(decayed)
        self.claim("without any slope the weights still shrink", bool((decayed < self.theta).all()))

    @step("A rate that changes", like="Pulling away from the kerb, cruising, and braking early before the lights.")
    def rate_that_changes(self) -> None:
        """At first averages are unreliable and steps should be short; then long; then shorter and shorter, to settle.
        The original schedule climbs in a line and falls with the root of the step.
        """
        given = self.given("noam-learning-rate")
        dim, warmup = given.get("d", int), given.get("warmup_steps", int)
        rates = [noam_learning_rate(step, dim, warmup) for step in given.get("step", list[int])]
        self.show(rates[2])
        self.beside("noam-learning-rate", lr=rates)
        steps = range(100, 20001, 100)
        peak, total = noam_learning_rate(warmup, dim, warmup), 20000
        self.plot(
            "learning rate",
            {
                "original": (steps, [noam_learning_rate(step, dim, warmup) for step in steps]),
                "cosine": (steps, [cosine_schedule(step, warmup, total, peak) for step in steps]),
                "stable, then down": (steps, [warmup_stable_decay(step, warmup, 10000, 6000, peak) for step in steps]),
            },
        )
        self.claim(
            "the peak is where warm-up ends",
            noam_learning_rate(warmup, dim, warmup) > noam_learning_rate(warmup + 50, dim, warmup),
        )

    @step("Where to start", like="Tuning a string before the concert: neither slack nor about to snap.")
    def where_to_start(self) -> None:
        """First weights are random, and their spread matters: too small and signals die out from layer to layer, too
        large and they blow up. Xavier keeps the size on straight layers; He allows for the half that ReLU drops.
        """
        random = torch.Generator().manual_seed(0)
        even, half = xavier_uniform(256, 256, random, torch.float64), he_normal(256, 256, random, torch.float64)
        self.table(("", "variance times inputs"), [("xavier", even.var() * 256), ("he", half.var() * 256)])
        self.same("xavier keeps a signal's variance", float(even.var() * 256), 1, within=0.05)
        self.same("he doubles it, since ReLU halves it", float(half.var() * 256), 2, within=0.1)

    def quiz(self) -> None:
        """Questions on it."""
        past, now, beta = self.tensor([1.0]), self.tensor([3.0]), 0.9
        self.ask(
            f"A running average at {number(past[0])} meets {number(now[0])}, with decay {number(beta)}. What "
            "is it now?",
            lambda: exponential_moving_average(past, now, beta),
            "Nine tenths of the old, one tenth of the new.",
            cell=(0,),
        )
        width, climb = 256, 100
        self.ask(
            f"The original schedule with width {width} and {climb} steps of warm-up: the rate at step {climb}?",
            lambda: noam_learning_rate(climb, width, climb),
            "One over the root of the width, over the root of the step.",
            tolerance=1e-4,
        )
        self.ask(
            f"With decay {number(beta)}, what does correction make of an average of {number(past[0])} after one step?",
            lambda: bias_correction(past, beta, 1),
            "Divide by one tenth.",
            cell=(0,),
        )
