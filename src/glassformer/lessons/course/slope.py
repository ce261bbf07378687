"""Slope and derivative."""

from glassformer.arithmetic import number
from glassformer.equations.algebra import add, line, multiply
from glassformer.equations.gradients import difference_quotient
from glassformer.lessons.walk import Walk, step


class SlopeWalk(Walk):
    """How much a height changes for a small step, and what is left when the step shrinks to nothing."""

    @step(
        "A slope is a rate",
        like="A staircase whose steps are all alike: knowing one step, you know how high any number of them will take "
        "you.",
    )
    def slope_is_a_rate(self) -> None:
        """A straight line has one slope everywhere: for each step to the right it rises by the same amount. A negative
        slope goes down.
        """
        given = self.given("line-slope-meaning")
        start, width, rises = self.tensor(0.0), given.get("delta_x", float), []
        for slope in given.get("m", list[float]):
            high = line(start + width, slope)
            self.show(high)
            rises.append(difference_quotient(high, line(start, slope), width))
        self.beside("line-slope-meaning", delta_y=rises)

    @step(
        "A curve has a slope at each place",
        like="A car's average speed over the last kilometre: the shorter the kilometre, the nearer to what the "
        "speedometer shows now.",
    )
    def curve_has_a_slope(self) -> None:
        """The square has no slope of its own, only one at each place. Walk a short stretch h and divide the rise by h:
        that is the slope on average over the stretch.
        """
        given = self.given("derivative-limit-x2")
        self.x = given.tensor("x")
        self.here = multiply(self.x, self.x)
        self.show(self.here)
        self.lengths, self.quotients = given.get("h", list[float]), []
        for h in self.lengths:
            ahead = self.x + h
            self.quotients.append(difference_quotient(multiply(ahead, ahead), self.here, h))
        self.show(self.quotients[0])
        self.table(("h", "slope over h"), zip(self.lengths, self.quotients, strict=True))

    @step(
        "The limit is the derivative",
        like="Zooming into a map until the winding road looks straight: then a ruler is enough.",
    )
    def limit_is_the_derivative(self) -> None:
        """As h shrinks the quotient settles. What it settles on is the derivative, and a rule gives it without any h:
        a product sends back each factor to the other one.
        """
        slope = self.back(self.here)[self.x]
        self.show_gradient(self.back(self.here), self.x, "df/dx")
        self.say(
            f"At x = {number(self.x)} the rule says {number(slope)}; with h = {number(self.lengths[-1])} the "
            "quotient said "
            f"{number(self.quotients[-1], 6)}."
        )
        errors = [abs(float(quotient - slope)) for quotient in self.quotients]
        self.claim("each shorter stretch comes nearer to the derivative", errors == sorted(errors, reverse=True))
        self.beside("derivative-limit-x2", quotient=self.quotients, derivative=slope)

    @step(
        "The slope changes from place to place",
        like="A marble in a bowl feels the wall most where it is steepest, and nothing at all at the very bottom.",
    )
    def slope_changes_from_place(self) -> None:
        """Ask the rule at many places and the slopes of the square lie on a straight line themselves: negative on the
        left, zero at the bottom, positive on the right. At the bottom nothing pulls either way.
        """
        places = self.tensor([i / 4 - 3 for i in range(25)])
        heights = multiply(places, places)
        slopes = self.back(heights, places.new_ones(len(places)))[places]
        self.plot(
            "the square and its slope",
            {"x²": (places.tolist(), heights.tolist()), "slope": (places.tolist(), slopes.tolist())},
            "x",
        )
        self.claim("the slope is zero exactly at the bottom", slopes[heights.argmin()] == 0)

    def quiz(self) -> None:
        """Questions on it."""
        m, b, at = 2.5, 1.0, self.tensor(4.0)
        self.ask(
            f"A line has slope {number(m)} and intercept {number(b)}. How high is it at x = {number(at)}?",
            lambda: line(at, m, b),
            "Multiply the slope by x, then add the intercept.",
        )
        near, far = self.tensor(2.0), self.tensor(2.5)
        self.ask(
            f"What is the slope of x² over the stretch from x = {number(near)} to x = {number(far)}?",
            lambda: difference_quotient(multiply(far, far), multiply(near, near), float(far - near)),
            "Rise over run: the square at the end less the square at the beginning, divided by the length of "
            "the stretch.",
        )
        self.ask(
            f"And the derivative of x² exactly at x = {number(near)}?",
            lambda: add(near, near),
            "A product x·x sends back x once for each factor.",
        )
