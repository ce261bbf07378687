"""Slope and derivative."""

from glassformer.arithmetic import number
from glassformer.equations.algebra import add, line, multiply
from glassformer.equations.gradients import difference_quotient
from glassformer.lessons.walk import Walk


def walk_slope(walk: Walk) -> None:
    """How much a height changes for a small step, and what is left when the step shrinks to nothing."""
    walk.step(
        "A slope is a rate",
        "A straight line has one slope everywhere: for each step to the right it rises by the same amount. "
        "A negative slope goes down.",
        like="A staircase whose steps are all alike: knowing one step, you know how high any number of them will take you.",
    )
    given = walk.given("line-slope-meaning")
    start, width, rises = walk.tensor(0.0), given.get("delta_x", float), []
    for slope in given.get("m", list[float]):
        high = line(start + width, slope)
        walk.show(high)
        rises.append(difference_quotient(high, line(start, slope), width))
    walk.beside("line-slope-meaning", delta_y=rises)

    walk.step(
        "A curve has a slope at each place",
        "The square has no slope of its own, only one at each place. Walk a short stretch h and divide the rise by h: "
        "that is the slope on average over the stretch.",
        like="A car's average speed over the last kilometre: the shorter the kilometre, the nearer to what the "
        "speedometer shows now.",
    )
    given = walk.given("derivative-limit-x2")
    x = given.tensor("x")
    here = multiply(x, x)
    walk.show(here)
    lengths, quotients = given.get("h", list[float]), []
    for h in lengths:
        ahead = x + h
        quotients.append(difference_quotient(multiply(ahead, ahead), here, h))
    walk.show(quotients[0])
    walk.table(("h", "slope over h"), zip(lengths, quotients, strict=True))

    walk.step(
        "The limit is the derivative",
        "As h shrinks the quotient settles. What it settles on is the derivative, and a rule gives it without any h: "
        "a product sends back each factor to the other one.",
        like="Zooming into a map until the winding road looks straight: then a ruler is enough.",
    )
    slope = walk.back(here)[x]
    walk.show_gradient(walk.back(here), x, "df/dx")
    walk.say(
        f"At x = {number(x)} the rule says {number(slope)}; with h = {number(lengths[-1])} the quotient said "
        f"{number(quotients[-1], 6)}."
    )
    errors = [abs(float(quotient - slope)) for quotient in quotients]
    walk.claim("each shorter stretch comes nearer to the derivative", errors == sorted(errors, reverse=True))
    walk.beside("derivative-limit-x2", quotient=quotients, derivative=slope)

    walk.step(
        "The slope changes from place to place",
        "Ask the rule at many places and the slopes of the square lie on a straight line themselves: negative on the "
        "left, zero at the bottom, positive on the right. At the bottom nothing pulls either way.",
        like="A marble in a bowl feels the wall most where it is steepest, and nothing at all at the very bottom.",
    )
    places = walk.tensor([i / 4 - 3 for i in range(25)])
    heights = multiply(places, places)
    slopes = walk.back(heights, places.new_ones(len(places)))[places]
    walk.plot("the square and its slope", {"x²": (places.tolist(), heights.tolist()), "slope": (places.tolist(), slopes.tolist())}, "x")
    walk.claim("the slope is zero exactly at the bottom", slopes[heights.argmin()] == 0)

    m, b, at = 2.5, 1.0, walk.tensor(4.0)
    walk.ask(
        f"A line has slope {number(m)} and intercept {number(b)}. How high is it at x = {number(at)}?",
        lambda: line(at, m, b),
        "Multiply the slope by x, then add the intercept.",
    )
    near, far = walk.tensor(2.0), walk.tensor(2.5)
    walk.ask(
        f"What is the slope of x² over the stretch from x = {number(near)} to x = {number(far)}?",
        lambda: difference_quotient(multiply(far, far), multiply(near, near), float(far - near)),
        "Rise over run: the square at the end less the square at the beginning, divided by the length of the stretch.",
    )
    walk.ask(
        f"And the derivative of x² exactly at x = {number(near)}?",
        lambda: add(near, near),
        "A product x·x sends back x once for each factor.",
    )
