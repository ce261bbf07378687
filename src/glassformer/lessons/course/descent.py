"""Gradient descent in one and two variables."""

from glassformer.arithmetic import number
from glassformer.equations.algebra import multiply
from glassformer.equations.optimizers import gradient_descent, momentum
from glassformer.equations.similarity import inner_product
from glassformer.lessons.walk import Walk


def walk_descent(walk: Walk) -> None:
    """Step against the slope, again and again: what the size of the step does, and where the path leads."""
    walk.step(
        "Step against the slope",
        "To find the lowest place, feel the slope underfoot and step the other way. The learning rate says how long a "
        "step is for each unit of slope, so steps shorten by themselves where the ground grows flat.",
        like="Coming down a hill in thick fog: you cannot see the valley, but your feet know which way is down.",
    )
    given = walk.given("gd-x2-first-iterates")
    rate, x = given.get("alpha", float), given.tensor("x0")
    places, heights, slopes = [x], [], []
    for _ in range(walk.given("gd-x2-iteration-10").get("k", int)):
        heights.append(multiply(places[-1], places[-1]))
        slopes.append(walk.back(heights[-1])[places[-1]])
        places.append(gradient_descent(places[-1], slopes[-1], rate))
    heights.append(multiply(places[-1], places[-1]))
    for place in places[1:4]:
        walk.show(place)
    walk.beside("gd-x2-first-iterates", x=places[:3], f=heights[:3], slope=slopes[:3], x_new=places[1:4])

    walk.step(
        "Ten steps later",
        "Each step on the square keeps the same share of the distance, so the path nears the bottom without ever "
        "quite arriving. One of the sources prints another tenth place; here is the right one beside it.",
        like="A bouncing ball that keeps the same share of its height: each bounce is lower, none is the last.",
    )
    walk.show(places[-1])
    walk.beside("gd-x2-iteration-10", x=places[-1], f=heights[-1])
    walk.plot("height after each step", {"x²": (range(len(heights)), [float(f) for f in heights])})

    walk.step(
        "Too long, too short",
        "A rate that is too large jumps across the valley and lands higher than it began; one that is too small hardly "
        "moves. In between there is a rate at which the step lands on the same height on the other side, for ever.",
        like="Parking a car: push too hard and you hit the car in front, then the one behind; too timidly and you are "
        "still in the road at dusk.",
    )
    given = walk.given("learning-rate-regimes")
    paths = {}
    for rate in given.get("alpha", list[float]):
        path = [given.tensor("x0")]
        for _ in range(given.get("k", int)):
            height = multiply(path[-1], path[-1])
            path.append(gradient_descent(path[-1], walk.back(height)[path[-1]], rate))
        paths[rate] = path
    ends = [path[-1] for path in paths.values()]
    walk.table(("rate", "first step lands on", "last step lands on"), [(r, p[1], p[-1]) for r, p in paths.items()])
    walk.beside("learning-rate-regimes", x_10=ends)
    shown = [rate for rate in paths if rate in (max(paths), min(paths))] + [given.get("alpha", list[float])[3]]
    walk.plot("x at a rate", {number(r): (range(len(paths[r])), [float(x) for x in paths[r]]) for r in shown})
    walk.claim("the largest rate ends farther out than it began", abs(ends[0]) > abs(paths[max(paths)][0]))
    walk.claim("the smallest rate has barely moved", ends[-1] > 0.9 * paths[min(paths)][0])

    walk.step(
        "Two variables",
        "With several variables there is a slope along each of them. Collected in a row they are the gradient, which "
        "points up the steepest way; the step goes against it.",
        like="Water on a roof runs straight down the steepest line, whichever way the ridge may lie.",
    )
    given = walk.given("gd-two-variable")
    point = given.tensor("point")
    height = inner_product(point, point)
    found = walk.back(height)
    new = gradient_descent(point, found[point], given.get("alpha", float))
    lower = inner_product(new, new)
    walk.show(height)
    walk.show_gradient(found, point, "gradient")
    walk.show(new, (0,), (1,))
    walk.beside("gd-two-variable", f=height, gradient=found[point], new_point=new, new_f=lower)
    walk.claim(f"the height falls, from {number(height)} to {number(lower)}", lower < height)

    walk.step(
        "Steps along a stream",
        "Make the steps ever shorter and ever more of them, and the dots join into a smooth path: the stream that flows "
        "down the slope. Gradient descent walks along that stream in straight strides.",
        like="A film made of stills: the more pictures for each second, the smoother the motion.",
    )
    flow, rates = walk.worked("gradient-flow-euler"), walk.given("gradient-flow-euler").get("eta", list[float])
    walk.table(("length of a stride", "where it ends"), zip(rates, flow["euler"], strict=True))
    walk.say(f"The stream itself would be at {number(flow['exact'])}; shorter strides end nearer to it.")
    errors = flow["error"]
    walk.claim("each shorter stride ends nearer to the stream", errors == sorted(errors, reverse=True))

    walk.step(
        "A heavy ball",
        "In a narrow valley the slope points across it more than along it, and plain descent zigzags. Momentum adds "
        "up past slopes into a speed: what points across cancels, what points along builds up.",
        like="A bowling ball rolls through small ruts that would turn a pea aside.",
    )
    steepness, rate = walk.tensor([1.0, 20.0]), 0.02
    plain = heavy = walk.tensor([3.0, 1.0])
    speed, lows = walk.tensor([0.0, 0.0]), ([], [])
    for _ in range(40):
        below = inner_product(multiply(steepness, plain), plain)
        plain = gradient_descent(plain, walk.back(below)[plain], rate)
        under = inner_product(multiply(steepness, heavy), heavy)
        heavy, speed = momentum(heavy, walk.back(under)[heavy], speed, rate, 0.8)
        lows[0].append(float(below)), lows[1].append(float(under))
    walk.show(heavy, (0,))
    walk.plot("height in a narrow valley", {"plain": (range(40), lows[0]), "momentum": (range(40), lows[1])}, logarithmic=True)
    walk.claim("the heavy ball ends lower", lows[1][-1] < lows[0][-1])

    start, pace = walk.tensor(5.0), 0.2
    walk.ask(
        f"On x², from x = {number(start)} with rate {number(pace)}: where does one step lead?",
        lambda: gradient_descent(start, start + start, pace),
        "The slope of x² is twice x. Subtract the rate times the slope.",
    )
    corner, pace = walk.tensor([1.0, -2.0]), 0.25
    walk.ask(
        f"On x² + y², from ({number(corner[0])}, {number(corner[1])}) with rate {number(pace)}: what is the new y?",
        lambda: gradient_descent(corner, corner + corner, pace),
        "Only the second entry of the gradient matters for y.",
        cell=(1,),
    )
