"""Slope and derivative."""

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.algebra import add, multiply
from glassformer.equations.gradients import difference_quotient, line


class SlopeWalk(Walk):
    """How much a value changes for a small step, and what is left when the step shrinks to nothing."""

    @step(
        "A slope is a rate",
        like="A staircase whose steps are all alike: knowing one step, you know how high any number of them will take "
        "you.",
    )
    def slope_is_a_rate(self) -> None:
        """A straight line has one slope everywhere: for each unit to the right it changes by the same amount, wherever
        you start. A line with a negative slope goes down.
        """
        given = self.given("line-slope-meaning")
        start, width, slopes = self.tensor([0.0, 4.0]), given.get("delta_x", float), given.get("m", list[float])
        rises = []
        for slope in slopes:
            high = line(start[0] + width, slope)
            self.show(high)
            rises.append(difference_quotient(high, line(start[0], slope), width))
            elsewhere = difference_quotient(line(start[1] + width, slope), line(start[1], slope), width)
            self.same(f"starting at x = {number(start[1])} it changes by the same amount", elsewhere, rises[-1])
        self.claim(
            "the line goes down where the slope is negative", [rise < 0 for rise in rises] == [m < 0 for m in slopes]
        )
        self.beside("line-slope-meaning", delta_y=rises)

    @step(
        "A curve has a slope at each point",
        like="A car's average speed over the last mile, the last yard, the last inch: the shorter the stretch, the "
        "closer to what the speedometer shows now.",
    )
    def curve_has_a_slope(self) -> None:
        """A curve such as x² has no single slope, only one at each point. Walk a short stretch h and divide the rise
        by h: that is the average slope over the stretch.
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
        near, h = self.tensor(0.0), self.lengths[0]
        elsewhere = difference_quotient(multiply(near + h, near + h), multiply(near, near), h)
        self.less(
            f"over the same h the slope at x = {number(near)} is another, {number(elsewhere)}",
            elsewhere,
            self.quotients[0],
        )

    @step(
        "The limit is the derivative",
        like="Zooming into a map until the winding road looks straight: then a ruler is enough.",
    )
    def limit_is_the_derivative(self) -> None:
        """As h shrinks the quotient settles. What it settles on is the derivative, and a rule gives it without any h:
        the derivative of a product with respect to one factor is the other factor.
        """
        slope = self.back(self.here)[self.x]
        self.show_gradient(self.back(self.here), self.x, "df/dx")
        self.say(
            f"At x = {number(self.x)} the rule gives {number(slope)}; with h = {number(self.lengths[-1])} the "
            f"quotient is {number(self.quotients[-1], 6)}."
        )
        errors = [abs(float(quotient - slope)) for quotient in self.quotients]
        self.claim("each shorter stretch comes closer to the derivative", errors == sorted(errors, reverse=True))
        self.beside("derivative-limit-x2", quotient=self.quotients, derivative=slope)

    @step(
        "The slope changes from point to point",
        like="A marble in a bowl is pushed hardest where the wall is steepest, and not at all at the very bottom.",
    )
    def slope_changes_from_place(self) -> None:
        """Apply the rule at many points, and the slopes of x² themselves lie on a straight line: negative on the left,
        zero at the bottom, positive on the right. At the bottom nothing pulls either way.
        """
        points = self.tensor([i / 4 - 3 for i in range(25)])
        heights = multiply(points, points)
        slopes = self.back(heights, points.new_ones(len(points)))[points]
        self.plot(
            "x² and its slope",
            {"x²": (points.tolist(), heights.tolist()), "slope": (points.tolist(), slopes.tolist())},
            "x",
        )
        self.same("the slopes lie on one straight line", slopes.diff(), slopes.diff()[0])
        self.claim("left of the bottom they are negative, right of it positive", (slopes.sign() == points.sign()).all())
        self.claim("the slope is zero exactly at the bottom", slopes[heights.argmin()] == 0)

    def quiz(self) -> None:
        """Questions on it."""
        m, b, at = 2.5, 1.0, self.tensor(4.0)
        self.ask(
            f"A line has slope {number(m)} and intercept {number(b)}. What is its value at x = {number(at)}?",
            lambda: line(at, m, b),
            "Multiply the slope by x, then add the intercept.",
        )
        near, far = self.tensor(2.0), self.tensor(2.5)
        self.ask(
            f"What is the slope of x² over the stretch from x = {number(near)} to x = {number(far)}?",
            lambda: difference_quotient(multiply(far, far), multiply(near, near), float(far - near)),
            "Rise over run: how much does x² change, and over what length?",
        )
        self.ask(
            f"And the derivative of x² exactly at x = {number(near)}?",
            lambda: add(near, near),
            "The product x·x has two factors, and each contributes the other one.",
        )
