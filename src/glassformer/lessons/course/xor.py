"""Exclusive or: what a line cannot do and a bend can."""

from glassformer.arithmetic import number
from glassformer.equations.activations import relu, sigmoid
from glassformer.equations.algebra import linear, matmul, transpose
from glassformer.equations.losses import mean_squared_error
from glassformer.lessons.walk import Walk
from glassformer.worked.networks import least_squares

CORNERS = ("neither", "second", "first", "both")


def walk_xor(walk: Walk) -> None:
    """One or the other, but not both: no straight line parts these four points, and two bends do."""
    walk.step(
        "Four points",
        "True when exactly one of two inputs is true. Draw the four corners of a square: the true ones lie on one "
        "diagonal, the false ones on the other, and no straight cut has one kind on each side.",
        like="Two couples at the corners of a table, partners opposite: no single ruler laid on the table parts couple "
        "from couple.",
    )
    given = walk.given("xor-linear-fit")
    x, y = given.tensors("inputs", "targets")
    walk.table(("corner", "first", "second", "exclusive or"), [(n, *row, t) for n, row, t in zip(CORNERS, x, y, strict=True)])
    walk.plot("true and false corners", {
        "true": (x[y == 1][:, 0].tolist(), x[y == 1][:, 1].tolist()),
        "false": (x[y == 0][:, 0].tolist(), x[y == 0][:, 1].tolist()),
    }, "first input", joined=False)

    walk.step(
        "The best line says nothing",
        "Of all linear maps the one with the smallest error gives the same answer at every corner: halfway. It is not "
        "that training failed; there is nothing better to find.",
        like="Asked where the two ends of a see-saw are, a rigid answer can only point at the middle.",
    )
    w, b = (found.round(decimals=12) for found in least_squares(x, y[:, None]))  # less the noise of the solver
    guess = linear(x, w, b)
    error = mean_squared_error(guess, y[:, None])
    walk.show(guess, (1, 0), rows=CORNERS)
    walk.beside("xor-linear-fit", predictions=guess[:, 0], mse=error)
    walk.claim("every corner gets the same guess", bool((guess - guess[0]).abs().max() < 1e-12))

    walk.step(
        "Stacking lines gives a line",
        "Two linear maps in a row are one linear map: multiply their matrices. Depth without a bend adds nothing.",
        like="Two panes of clear glass, one behind the other, are still a pane of clear glass.",
    )
    first, second = walk.tensor([[1.0, -2.0], [0.5, 3.0]]), walk.tensor([[2.0], [-1.0]])
    one_matrix = matmul(first, second)
    walk.show(one_matrix, (0, 0))
    walk.claim(
        "one matrix does what the two did", bool((linear(linear(x, first), second) - linear(x, one_matrix)).abs().max() == 0)
    )

    walk.step(
        "Sigmoids: one watches for either, one for not both",
        "The first hidden unit answers whether any input is true, the second whether not both are; the output asks for "
        "both answers at once. The weights are large, so that the smooth curve is nearly a switch.",
        like="A club with two doormen: one lets in whoever has a ticket, the other turns away whoever has two.",
    )
    given = walk.given("xor-sigmoid")
    W, c, v, x = given.tensors("W", "c", "w", "inputs")
    hidden = sigmoid(linear(x, transpose(W), c))
    out = sigmoid(linear(hidden, v[:, None], given.tensor("b")[None]))
    walk.show(hidden, (0, 0), rows=CORNERS)
    walk.show(out, (1, 0), rows=CORNERS)
    walk.beside("xor-sigmoid", hidden=hidden, output=out[:, 0], rounded=out[:, 0].round().long())

    walk.step(
        "ReLUs: the difference, either way round",
        "One unit keeps the first less the second when that is positive, the other the second less the first. Added up "
        "they say how different the inputs are. In print a shift puts the answer exactly on the threshold, where a hair "
        "decides; without the shift the answers are zero and one.",
        like="Two scales that each show only a surplus: together they show that the pans differ, whichever is heavier.",
    )
    given = walk.given("xor-relu")
    W, c, v, x = given.tensors("W", "c", "w", "inputs")
    hidden = relu(linear(x, W, c))
    out = relu(linear(hidden, v[:, None], given.tensor("b")[None]))
    walk.show(hidden, (1, 0), (1, 1), rows=CORNERS)
    walk.beside("xor-relu", hidden=hidden, output=out[:, 0])
    exact = relu(linear(hidden, v[:, None]))
    walk.show(exact, (1, 0), rows=CORNERS)
    walk.claim("without the shift the network gives exactly the targets", bool((exact[:, 0] == y).all()))

    walk.step(
        "What the hidden layer did",
        "In the hidden layer's own two numbers the corners lie elsewhere: both false corners fall on one point, and now "
        "a straight line is enough.",
        like="Fold the sheet of paper, and one straight cut goes through what were two places.",
    )
    walk.plot("the corners as the hidden layer sees them", {
        "true": (hidden[y == 1][:, 0].tolist(), hidden[y == 1][:, 1].tolist()),
        "false": (hidden[y == 0][:, 0].tolist(), hidden[y == 0][:, 1].tolist()),
    }, "first hidden unit", joined=False)
    walk.claim("the two false corners have become one point", bool((hidden[0] == hidden[3]).all()))

    walk.ask("How large is the mean squared error of the best line?", lambda: mean_squared_error(guess, y[:, None]),
             f"It says {number(guess[0, 0])} everywhere, and every target is as far from that.")
    walk.ask("What does the first hidden ReLU give when only the first input is true?", lambda: relu(linear(x, W, c)),
             "Its weights are in the first column of W.", cell=(2, 0))
