"""Gradient descent in one and two variables."""

from glassformer.arithmetic import number
from glassformer.equations.algebra import multiply
from glassformer.equations.optimizers import gradient_descent, momentum
from glassformer.equations.similarity import inner_product
from glassformer.lessons.walk import Walk, step


class DescentWalk(Walk):
    """Step against the slope, again and again: what the size of the step does, and where the path leads."""

    @step(
        "Step against the slope",
        like="Coming down a hill in thick fog: you cannot see the valley, but your feet know which way is down.",
    )
    def step_against_the_slope(self) -> None:
        """To find the lowest place, feel the slope underfoot and step the other way. The learning rate says how long a
        step is for each unit of slope, so steps shorten by themselves where the ground grows flat.
        """
        given = self.given("gd-x2-first-iterates")
        rate, x = given.get("alpha", float), given.tensor("x0")
        self.places, self.heights, slopes = [x], [], []
        for _ in range(self.given("gd-x2-iteration-10").get("k", int)):
            self.heights.append(multiply(self.places[-1], self.places[-1]))
            slopes.append(self.back(self.heights[-1])[self.places[-1]])
            self.places.append(gradient_descent(self.places[-1], slopes[-1], rate))
        self.heights.append(multiply(self.places[-1], self.places[-1]))
        for place in self.places[1:4]:
            self.show(place)
        self.beside(
            "gd-x2-first-iterates", x=self.places[:3], f=self.heights[:3], slope=slopes[:3], x_new=self.places[1:4]
        )

    @step(
        "Ten steps later",
        like="A bouncing ball that keeps the same share of its height: each bounce is lower, none is the last.",
    )
    def ten_steps_later(self) -> None:
        """Each step on the square keeps the same share of the distance, so the path nears the bottom without ever
        quite arriving. One of the sources prints another tenth place; here is the right one beside it.
        """
        self.show(self.places[-1])
        self.beside("gd-x2-iteration-10", x=self.places[-1], f=self.heights[-1])
        self.plot("height after each step", {"x²": (range(len(self.heights)), [float(f) for f in self.heights])})

    @step(
        "Too long, too short",
        like="Parking a car: push too hard and you hit the car in front, then the one behind; too timidly and you are "
        "still in the road at dusk.",
    )
    def too_long_too_short(self) -> None:
        """A rate that is too large jumps across the valley and lands higher than it began; one that is too small
        hardly moves. In between there is a rate at which the step lands on the same height on the other side, for
        ever.
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
        self.table(("rate", "first step lands on", "last step lands on"), [(r, p[1], p[-1]) for r, p in paths.items()])
        self.beside("learning-rate-regimes", x_10=ends)
        shown = [rate for rate in paths if rate in (max(paths), min(paths))] + [given.get("alpha", list[float])[3]]
        self.plot("x at a rate", {number(r): (range(len(paths[r])), [float(x) for x in paths[r]]) for r in shown})
        self.claim("the largest rate ends farther out than it began", abs(ends[0]) > abs(paths[max(paths)][0]))
        self.claim("the smallest rate has barely moved", ends[-1] > 0.9 * paths[min(paths)][0])

    @step(
        "Two variables",
        like="Water on a roof runs straight down the steepest line, whichever way the ridge may lie.",
    )
    def two_variables(self) -> None:
        """With several variables there is a slope along each of them. Collected in a row they are the gradient, which
        points up the steepest way; the step goes against it.
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
        self.claim(f"the height falls, from {number(height)} to {number(lower)}", lower < height)

    @step(
        "Steps along a stream",
        like="A film made of stills: the more pictures for each second, the smoother the motion.",
    )
    def steps_along_a_stream(self) -> None:
        """Make the steps ever shorter and ever more of them, and the dots join into a smooth path: the stream that
        flows down the slope. Gradient descent walks along that stream in straight strides.
        """
        flow, rates = self.worked("gradient-flow-euler"), self.given("gradient-flow-euler").get("eta", list[float])
        self.table(("length of a stride", "where it ends"), zip(rates, flow.get("euler", list[float]), strict=True))
        self.say(f"The stream itself would be at {number(flow.get('exact', float))}; shorter strides end nearer to it.")
        errors = flow.get("error", list[float])
        self.claim("each shorter stride ends nearer to the stream", errors == sorted(errors, reverse=True))

    @step("A heavy ball", like="A bowling ball rolls through small ruts that would turn a pea aside.")
    def heavy_ball(self) -> None:
        """In a narrow valley the slope points across it more than along it, and plain descent zigzags. Momentum adds
        up past slopes into a speed: what points across cancels, what points along builds up.
        """
        steepness, rate = self.tensor([1.0, 20.0]), 0.02
        plain = heavy = self.tensor([3.0, 1.0])
        speed, lows = self.tensor([0.0, 0.0]), ([], [])
        for _ in range(40):
            below = inner_product(multiply(steepness, plain), plain)
            plain = gradient_descent(plain, self.back(below)[plain], rate)
            under = inner_product(multiply(steepness, heavy), heavy)
            heavy, speed = momentum(heavy, self.back(under)[heavy], speed, rate, 0.8)
            lows[0].append(float(below))
            lows[1].append(float(under))
        self.show(heavy, (0,))
        self.plot(
            "height in a narrow valley",
            {"plain": (range(40), lows[0]), "momentum": (range(40), lows[1])},
            logarithmic=True,
        )
        self.claim("the heavy ball ends lower", lows[1][-1] < lows[0][-1])

    def quiz(self) -> None:
        """Questions on it."""
        start, pace = self.tensor(5.0), 0.2
        self.ask(
            f"On x², from x = {number(start)} with rate {number(pace)}: where does one step lead?",
            lambda: gradient_descent(start, start + start, pace),
            "The slope of x² is twice x. Subtract the rate times the slope.",
        )
        corner, pace = self.tensor([1.0, -2.0]), 0.25
        self.ask(
            f"On x² + y², from ({number(corner[0])}, {number(corner[1])}) with rate {number(pace)}: what is the new y?",
            lambda: gradient_descent(corner, corner + corner, pace),
            "Only the second entry of the gradient matters for y.",
            cell=(1,),
        )
