"""Adam and schedules."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.activations import relu
from glassformer.equations.adam import adam, adamw, bias_correction, moving_mean_square, normalized_descent, rmsprop
from glassformer.equations.algebra import linear, multiply
from glassformer.equations.optimizers import exponential_moving_average, gradient_descent
from glassformer.equations.schedules import cosine_schedule, noam_learning_rate, warmup_stable_decay
from glassformer.equations.similarity import inner_product
from glassformer.equations.variance_scaling import he_normal, xavier_uniform


class AdamWalk(Walk):
    """A step length for each parameter, a learning rate that changes over time, and good initial weights."""

    @step("Two averages", like="Knowing a colleague: what they tend to say, and how loudly they tend to say it.")
    def two_averages(self) -> None:
        """Adam keeps two numbers for each parameter: which way its gradient usually points, and how large it usually
        is. Both are running averages in which old gradients fade.
        """
        self.theta, self.g = self.tensor([1.0, 1.0]), self.tensor([0.1, -20.0])
        self.m = exponential_moving_average(torch.zeros_like(self.g), self.g, 0.9)
        self.v = moving_mean_square(torch.zeros_like(self.g), self.g, 0.999)
        self.show(self.m, (0,), (1,))
        self.show(self.v, (0,), (1,))
        faded = self.m
        for _ in range(10):
            faded = exponential_moving_average(faded, torch.zeros_like(self.g), 0.9)
        self.same("after ten steps without a gradient a third is left, about", faded / self.m, 1 / 3, within=0.02)

    @step(
        "Bias correction",
        like="A new store's average weekly sales: divide by the weeks it has been open, not by fifty-two.",
    )
    def correct_the_cold_start(self) -> None:
        """Averages that begin at zero are too small at first, and by how much is known exactly: divide it out."""
        self.m_hat, self.v_hat = bias_correction(self.m, 0.9, 1), bias_correction(self.v, 0.999, 1)
        self.show(self.m_hat, (0,))
        self.show(self.v_hat, (0,))
        self.claim(
            "after one step both averages are too small",
            (self.m.abs() < self.g.abs()).all() & (self.v < self.g**2).all(),
        )
        self.same("corrected, the first is the gradient itself", self.m_hat, self.g)
        self.same("and the second its square", self.v_hat, self.g.square())

    @step(
        "Step in units of the usual gradient",
        like="Raising every salary by the same percentage of what each is used to.",
    )
    def step_in_units(self) -> None:
        """One gradient here is two hundred times the other, and yet both parameters move by the same length. The
        learning rate now means the same for all of them.
        """
        new = normalized_descent(self.theta, self.m_hat, self.v_hat, 0.1)
        whole, *_ = adam(self.theta, self.g, torch.zeros_like(self.g), torch.zeros_like(self.g), 1, 0.1)
        self.show(new, (0,), (1,))
        self.same("the whole equation gives the same as its parts", whole, new)
        self.same("one gradient is two hundred times the other", self.g[1].abs() / self.g[0].abs(), 200)
        moved = (new - self.theta).abs()
        self.same("both parameters move by the same length", moved[0], moved[1], within=1e-6)
        plain = gradient_descent(self.theta, self.g, 0.1)
        self.say(f"Plain descent would have moved the second to {number(plain[1])}.")

    @step("In a narrow valley", like="Skis with an edge for each foot.")
    def in_a_narrow_valley(self) -> None:
        """The valley of the descent lesson again, twenty times as steep across as along. Plain descent must take steps
        as short as the steep side demands, or it diverges; RMSprop and Adam need not.
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
        for name in ("rmsprop", "adam"):
            self.less(f"{name} gets lower than plain descent", min(heights[name]), min(heights["plain"]))
        point, climbed = starts, [heights["plain"][0]]
        for _ in range(5):
            height = inner_product(multiply(steepness, point), point)
            point = gradient_descent(point, self.back(height)[point], 0.1)
            climbed.append(float(inner_product(multiply(steepness, point), point)))
        self.claim("at the learning rate of RMSprop plain descent diverges", climbed == sorted(climbed))

    @step("Weight decay, outside the averages", like="Rent, which is due however business was.")
    def shrink_outside_the_averages(self) -> None:
        """Weight decay pulls every parameter a little toward zero. AdamW does it apart from the step, so equal weights
        shrink equally, however large their gradients are.
        """
        zero = torch.zeros_like(self.g)
        decayed, *_ = adamw(self.theta, zero, zero, zero, 1, 0.1, decay=0.5)
        self.show(decayed)
        self.claim("without any gradient the weights still shrink", (decayed < self.theta).all())
        shrunk = (
            adam(self.theta, self.g, zero, zero, 1, 0.1)[0]
            - adamw(self.theta, self.g, zero, zero, 1, 0.1, decay=0.5)[0]
        )
        self.same("a small and a large gradient leave the decay the same", shrunk[0], shrunk[1])

    @step(
        "A learning rate that changes",
        like="Pulling away from the curb, cruising, and braking early before the lights.",
    )
    def rate_that_changes(self) -> None:
        """At first the averages are unreliable and steps should be short; then long; then shorter and shorter, to
        settle. The schedule of the original Transformer climbs in a line and falls with the root of the step.
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
        best = max(steps, key=lambda step: noam_learning_rate(step, dim, warmup))
        self.claim(f"the original schedule peaks where warmup ends, at step {best}", best == warmup)
        self.same("halfway up it has half the peak", noam_learning_rate(warmup // 2, dim, warmup) / peak, 0.5)
        self.same("at four times the steps it is back to half", noam_learning_rate(4 * warmup, dim, warmup) / peak, 0.5)

    @step("Initial weights", like="Tuning a string before the concert: neither slack nor about to snap.")
    def where_to_start(self) -> None:
        """Initial weights are random, and their spread matters: too small and signals die out from layer to layer, too
        large and they blow up. Xavier initialization keeps the size through linear layers; He initialization makes up
        for the half that ReLU drops.
        """
        random = torch.Generator().manual_seed(0)
        signal = torch.randn(64, 256, generator=random, dtype=torch.float64)
        xavier, he = (
            [make(256, 256, random, torch.float64) for _ in range(10)] for make in (xavier_uniform, he_normal)
        )
        sizes = {}
        for name, factor in (("half of Xavier", 0.5), ("Xavier", 1.0), ("twice Xavier", 2.0)):
            through = signal
            for weights in xavier:
                through = linear(through, factor * weights)
            sizes[name] = through.square().mean().sqrt()
        bent = signal
        for weights in he:
            bent = relu(linear(bent, weights))
        sizes["He, with ReLU"] = bent.square().mean().sqrt()
        self.table(("initial weights", "size of the signal after ten layers"), sizes.items())
        self.same("Xavier keeps the size within a third, through linear layers", sizes["Xavier"], 1.0, within=1 / 3)
        self.less("half as large, the signal dies out", sizes["half of Xavier"], 0.01)
        self.less("twice as large, it blows up", 100.0, sizes["twice Xavier"])
        self.same("He keeps the size within a third, through ReLU", sizes["He, with ReLU"], 1.0, within=1 / 3)
        self.same("He has twice the variance of Xavier, nearly", he[0].var() / xavier[0].var(), 2.0, within=0.1)

    def quiz(self) -> None:
        """Questions on it."""
        past, now, beta = self.tensor([1.0]), self.tensor([3.0]), 0.9
        self.ask(
            f"A running average at {number(past[0])} meets {number(now[0])}, with decay {number(beta)}. What "
            "is it now?",
            lambda: exponential_moving_average(past, now, beta),
            "The decay is the weight of the old average; the new value gets the rest.",
            cell=(0,),
        )
        width, climb = 256, 100
        self.ask(
            f"The original schedule with width {width} and {climb} steps of warmup: what is the learning rate at step "
            f"{climb}?",
            lambda: noam_learning_rate(climb, width, climb),
            "At the end of warmup both terms of the minimum are equal.",
            tolerance=1e-4,
        )
        self.ask(
            f"With decay {number(beta)}, what does bias correction make of an average of {number(past[0])} after one "
            "step?",
            lambda: bias_correction(past, beta, 1),
            "By what factor is an average that began at zero too small after one step?",
            cell=(0,),
        )
