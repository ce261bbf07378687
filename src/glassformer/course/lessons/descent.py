"""Gradient descent in one and two variables."""

import torch

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.algebra import add, multiply
from glassformer.equations.optimizers import gradient_descent, momentum
from glassformer.equations.similarity import inner_product


class DescentWalk(Walk):
    """Step against the slope, again and again: what the learning rate does, and where the path leads."""

    @step(
        "Step against the slope",
        like="Coming down a hill in thick fog: you cannot see the valley, but your feet know which way is down.",
    )
    def step_against_the_slope(self) -> None:
        """To find the lowest point, feel the slope underfoot and step the other way. The learning rate says how long a
        step is for each unit of slope, so steps shorten by themselves as the ground gets flatter.
        """
        given = self.given("gd-x2-first-iterates")
        rate, x = given.get("alpha", float), given.tensor("x0")
        self.points, self.heights, slopes = [x], [], []
        for _ in range(self.given("gd-x2-iteration-10").get("k", int)):
            self.heights.append(multiply(self.points[-1], self.points[-1]))
            slopes.append(self.back(self.heights[-1])[self.points[-1]])
            self.points.append(gradient_descent(self.points[-1], slopes[-1], rate))
        self.heights.append(multiply(self.points[-1], self.points[-1]))
        for point in self.points[1:4]:
            self.show(point)
        self.beside(
            "gd-x2-first-iterates", x=self.points[:3], f=self.heights[:3], slope=slopes[:3], x_new=self.points[1:4]
        )
        steps = torch.stack(self.points).diff().abs()
        self.claim("each step is shorter than the one before", (steps.diff() < 0).all())

    @step(
        "Ten steps later",
        like="A bouncing ball that keeps the same fraction of its height: each bounce is lower, none is the last.",
    )
    def ten_steps_later(self) -> None:
        """On x² each step leaves the same fraction of the distance, so the path approaches the bottom without ever
        quite arriving. One of the sources prints another value after the tenth step; here is the right one beside it.
        """
        self.show(self.points[-1])
        path = torch.stack(self.points)
        left = path[1:] / path[:-1]
        self.same(f"each step leaves {number(left[0])} of the distance", left, left[0])
        self.claim(f"after {len(left)} steps the bottom is still not reached", path.min() > 0 and len(left) == 10)
        self.beside("gd-x2-iteration-10", x=self.points[-1], f=self.heights[-1])
        self.plot("x² after each step", {"x²": (range(len(self.heights)), [float(f) for f in self.heights])})

    @step(
        "Too long, too short",
        like="Parking a car: too much gas and you hit the car in front, then the one behind; too little and you are "
        "still in the road at dusk.",
    )
    def too_long_too_short(self) -> None:
        """A learning rate that is too large jumps across the valley and lands higher than it began; one that is too
        small hardly moves. In between there is a rate at which every step lands at the same height on the other
        side, forever.
        """
        given = self.given("learning-rate-regimes")
        paths = {}
        for rate in given.get("alpha", list[float]):
            path = [given.tensor("x0")]
            for _ in range(given.get("k", int)):
                height = multiply(path[-1], path[-1])
                path.append(gradient_descent(path[-1], self.back(height)[path[-1]], rate))
            paths[rate] = path
        ends = [path[-1] for path in paths.values()]
        self.table(
            ("learning rate", "x after the first step", "x after the last step"),
            [(r, p[1], p[-1]) for r, p in paths.items()],
        )
        self.beside("learning-rate-regimes", x_10=ends)
        shown = [rate for rate in paths if rate in (max(paths), min(paths))] + [given.get("alpha", list[float])[3]]
        self.plot(
            "x at a learning rate", {number(r): (range(len(paths[r])), [float(x) for x in paths[r]]) for r in shown}
        )
        fast, slow = torch.stack(paths[max(paths)]), torch.stack(paths[min(paths)])
        across = bool((fast[1:] * fast[:-1] < 0).all())
        self.claim(
            f"at rate {number(max(paths))} every step jumps across and lands farther out",
            across and (fast.abs().diff() > 0).all(),
        )
        self.claim(
            f"at rate {number(min(paths))} all steps together go less than a tenth of the way", slow[-1] > 0.9 * slow[0]
        )
        even = torch.stack(paths[1.0])
        self.claim("at rate one every step lands at the same height on the other side", (even[1:] == -even[:-1]).all())

        def path_at(rate: object) -> None:
            x = [given.tensor("x0")]
            for _ in range(8):
                height = multiply(x[-1], x[-1])
                x.append(gradient_descent(x[-1], self.back(height)[x[-1]], float(rate)))  # pyright: ignore[reportArgumentType]
            reach = max(1.0, *(abs(float(each)) for each in x))
            ground = torch.linspace(-reach, reach, 41, dtype=torch.float64)
            curves = {
                "x²": (ground.tolist(), multiply(ground, ground).tolist()),
                "the path": ([float(each) for each in x], [float(multiply(each, each)) for each in x]),
            }
            self.plot("eight steps down the parabola", curves, "x")

        self.choose("learning rate", (0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 0.95, 1.0, 1.05), path_at, 2)

    @step(
        "Two variables",
        like="Water on a roof runs straight down the steepest line, whichever way the ridge may lie.",
    )
    def two_variables(self) -> None:
        """With several variables there is a slope along each of them. Together they form the gradient, a vector that
        points the steepest way up; the step goes against it.
        """
        given = self.given("gd-two-variable")
        point = given.tensor("point")
        height = inner_product(point, point)
        found = self.back(height)
        new = gradient_descent(point, found[point], given.get("alpha", float))
        lower = inner_product(new, new)
        self.show(height)
        self.show_gradient(found, point, "gradient")
        self.show(new, (0,), (1,))
        self.beside("gd-two-variable", f=height, gradient=found[point], new_point=new, new_f=lower)
        self.claim(f"the function falls from {number(height)} to {number(lower)}", lower < height)
        angles = torch.arange(0, 360, 10, dtype=point.dtype).deg2rad()
        around = point + 0.1 * torch.stack([angles.cos(), angles.sin()], -1)
        ahead = point + 0.1 * found[point] / found[point].norm()
        self.less(
            f"of steps of one length in {len(angles)} directions, none rises as much as a step along the gradient",
            inner_product(around, around).max(),
            inner_product(ahead, ahead),
        )

    @step(
        "Gradient flow",
        like="A film is made of stills: the more frames per second, the smoother the motion.",
    )
    def gradient_flow(self) -> None:
        """Take more and more steps, each shorter than before, and the dots join into a smooth path: the gradient flow,
        a stream that runs down the slope. Gradient descent follows that stream in straight strides.
        """
        flow, rates = self.worked("gradient-flow-euler"), self.given("gradient-flow-euler").get("eta", list[float])
        self.table(("learning rate", "x at the end"), zip(rates, flow.get("euler", list[float]), strict=True))
        self.say(f"The flow itself ends at {number(flow.get('exact', float))}.")
        errors = flow.get("error", list[float])
        self.claim("each smaller rate ends closer to the flow", errors == sorted(errors, reverse=True))

    @step("Momentum: a heavy ball", like="A bowling ball rolls through small ruts that would turn a pea aside.")
    def heavy_ball(self) -> None:
        """In a narrow valley the gradient points across it more than along it, and plain descent zigzags from wall to
        wall. Momentum adds past gradients up into a velocity: those across the valley change sign and largely
        cancel, those along it agree and build up.
        """
        steepness, rate = self.tensor([1.0, 20.0]), 0.045  # the valley runs along the first variable
        plain, heavy, velocity = [self.tensor([3.0, 1.0])], [self.tensor([3.0, 1.0])], self.tensor([0.0, 0.0])
        heights, slopes, velocities = ([], []), [], []
        for _ in range(20):
            heights[0].append(inner_product(multiply(steepness, plain[-1]), plain[-1]))
            plain.append(gradient_descent(plain[-1], self.back(heights[0][-1])[plain[-1]], rate))
            heights[1].append(inner_product(multiply(steepness, heavy[-1]), heavy[-1]))
            slopes.append(self.back(heights[1][-1])[heavy[-1]])
            stepped, velocity = momentum(heavy[-1], slopes[-1], velocity, rate, 0.5)
            heavy.append(stepped)
            velocities.append(velocity)
        self.show(heavy[2], (0,), (1,))
        self.plot(
            "height in a narrow valley",
            {
                name: (range(20), [float(h) for h in run])
                for name, run in zip(("plain", "momentum"), heights, strict=True)
            },
            logarithmic=True,
        )
        first, second = self.back(heights[0][0])[plain[0]], slopes[1].abs()
        self.less("the first gradient points across the valley more than along it", first[0], first[1])
        zigzags, crossings = ((path[1:, 1] * path[:-1, 1] < 0).sum() for path in map(torch.stack, (plain, heavy)))
        self.same(
            f"plain descent crosses the valley floor at each of its {int(zigzags)} steps", int(zigzags), len(slopes)
        )
        self.less(f"momentum crosses it less often, {int(crossings)} times", int(crossings), int(zigzags))
        self.less(
            "at its second step the velocity across is smaller than the gradient", velocities[1][1].abs(), second[1]
        )
        self.less("and the velocity along is larger", second[0], velocities[1][0].abs())
        self.less("with momentum the run ends lower", heights[1][-1], heights[0][-1])

    def quiz(self) -> None:
        """Questions on it."""
        start, pace = self.tensor(5.0), 0.2
        self.ask(
            f"On x², from x = {number(start)} with learning rate {number(pace)}: where does one step lead?",
            lambda: gradient_descent(start, add(start, start), pace),
            "First the slope of x² at the start; the step is the learning rate times that, downhill.",
        )
        corner, pace = self.tensor([1.0, -2.0]), 0.25
        self.ask(
            f"On x² + y², from ({number(corner[0])}, {number(corner[1])}) with learning rate {number(pace)}: what is "
            "the new y?",
            lambda: gradient_descent(corner, add(corner, corner), pace),
            "Only the second entry of the gradient matters for y.",
            cell=(1,),
        )
