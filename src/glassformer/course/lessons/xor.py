"""Exclusive or: what a line cannot do and a nonlinearity can."""

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.course.worked.networks import least_squares
from glassformer.equations.activations import relu, sigmoid
from glassformer.equations.algebra import linear
from glassformer.equations.losses import mean_squared_error
from glassformer.equations.matrices import matmul, transpose

CORNERS = ("neither", "second", "first", "both")


class XorWalk(Walk):
    """One or the other, but not both: no straight line separates these four points; two hidden units do."""

    @step(
        "Four points",
        like="Two couples at the corners of a table, partners opposite: no single ruler laid on the table separates "
        "couple from couple.",
    )
    def four_points(self) -> None:
        """Exclusive or is true when exactly one of two inputs is true. Draw the four corners of a square: the true
        ones lie on one diagonal, the false ones on the other, and the diagonals cross. So no straight line has one
        kind on each side.
        """
        given = self.given("xor-linear-fit")
        self.x, self.y = given.tensors("inputs", "targets")
        self.table(
            ("corner", "first", "second", "exclusive or"),
            [(n, *row, t) for n, row, t in zip(CORNERS, self.x, self.y, strict=True)],
        )
        true, false = self.x[self.y == 1], self.x[self.y == 0]
        self.same(
            "the two diagonals have the same midpoint, and it would lie on both sides", true.mean(0), false.mean(0)
        )
        self.plot(
            "true and false corners",
            {
                "true": (true[:, 0].tolist(), true[:, 1].tolist()),
                "false": (false[:, 0].tolist(), false[:, 1].tolist()),
            },
            "first input",
            joined=False,
        )

    @step(
        "The best line says nothing",
        like="Asked where the two ends of a seesaw are, someone who may point only once points at the middle.",
    )
    def best_line_says_nothing(self) -> None:
        """Of all linear maps, the one with the smallest error predicts the same at every corner: halfway between true
        and false. It is not that training failed; there is nothing better to find.
        """
        w, b = (
            found.round(decimals=12) for found in least_squares(self.x, self.y[:, None])
        )  # less the noise of the solver
        self.guess = linear(self.x, w, b)
        error = mean_squared_error(self.guess, self.y[:, None])
        self.show(self.guess, (1, 0), rows=CORNERS)
        self.beside("xor-linear-fit", predictions=self.guess[:, 0], mse=error)
        self.same("every corner gets the same prediction, halfway between the targets", self.guess, self.y.mean())
        found = self.back(error)
        self.claim("no small change lowers the error: the gradients are zero", not (found[w].any() or found[b].any()))

    @step(
        "Stacking lines gives a line",
        like="Two panes of clear glass, one behind the other, are still a pane of clear glass.",
    )
    def stacking_lines_gives_a_line(self) -> None:
        """Two linear maps in a row are one linear map: multiply their matrices. Depth without a nonlinearity adds
        nothing.
        """
        first, second = self.tensor([[1.0, -2.0], [0.5, 3.0]]), self.tensor([[2.0], [-1.0]])
        one_matrix = matmul(first, second)
        self.show(one_matrix, (0, 0))
        self.same(
            "one matrix does what the two did",
            linear(linear(self.x, first), second),
            linear(self.x, one_matrix),
            within=0.0,
        )

    @step(
        "Sigmoids: one unit for OR, one for NAND",
        like="A club with two doormen: one lets in whoever has a ticket, the other turns away whoever has two.",
    )
    def sigmoids_one_watches_for_either(self) -> None:
        """The first hidden unit says whether any input is true (OR), the second whether not both are (NAND); the
        output is true when both units are (AND). The weights are large, so the smooth curve is nearly a switch.
        """
        given = self.given("xor-sigmoid")
        W, c, v, x = given.tensors("W", "c", "w", "inputs")
        hidden = sigmoid(linear(x, transpose(W), c))
        out = sigmoid(linear(hidden, v[:, None], given.tensor("b")[None]))
        self.show(hidden, (0, 0), rows=CORNERS)
        self.show(out, (1, 0), rows=CORNERS)
        self.beside("xor-sigmoid", hidden=hidden, output=out[:, 0], rounded=out[:, 0].round().long())
        self.same("the first unit is OR, nearly", hidden[:, 0], x.amax(-1), within=1e-3)
        self.same("the second is NAND, nearly", hidden[:, 1], 1 - x.amin(-1), within=1e-3)
        self.same("the output is AND of the two, nearly", out[:, 0], hidden.amin(-1), within=1e-3)

    @step(
        "ReLUs: the difference, either way",
        like="Two scales that each show only a surplus: together they show that the pans differ, whichever is heavier.",
    )
    def relus_the_difference_either_way(self) -> None:
        """One unit passes the first input minus the second when that is positive, the other the second minus the
        first. Their sum is how different the inputs are. In print a bias puts the output for true exactly on the
        threshold of one half, where rounding decides; without that bias the outputs are zero and one.
        """
        given = self.given("xor-relu")
        self.W, self.c, v, self.x = given.tensors("W", "c", "w", "inputs")
        self.hidden = relu(linear(self.x, self.W, self.c))
        out = relu(linear(self.hidden, v[:, None], given.tensor("b")[None]))
        self.show(self.hidden, (1, 0), (1, 1), rows=CORNERS)
        self.beside("xor-relu", hidden=self.hidden, output=out[:, 0])
        exact = relu(linear(self.hidden, v[:, None]))
        self.show(exact, (1, 0), rows=CORNERS)
        apart = (self.x[:, 0] - self.x[:, 1]).abs()
        self.same("the two units add up to the distance between the inputs", self.hidden.sum(-1), apart, within=0.0)
        self.same("with the printed bias the output for true is one half", out[self.y == 1], 0.5, within=0.0)
        self.same("without it the network gives exactly the targets", exact[:, 0], self.y, within=0.0)

    @step(
        "What the hidden layer did",
        like="Fold the sheet of paper, and one straight cut goes through two spots at once.",
    )
    def what_the_hidden_layer_did(self) -> None:
        """In the two activations of the hidden layer the corners lie elsewhere: both false corners fall on one point,
        and now a straight line is enough.
        """
        self.plot(
            "the corners as the hidden layer sees them",
            {
                "true": (self.hidden[self.y == 1][:, 0].tolist(), self.hidden[self.y == 1][:, 1].tolist()),
                "false": (self.hidden[self.y == 0][:, 0].tolist(), self.hidden[self.y == 0][:, 1].tolist()),
            },
            "first hidden unit",
            joined=False,
        )
        self.same("the two false corners have become one point", self.hidden[0], self.hidden[3], within=0.0)
        w, b = least_squares(self.hidden, self.y[:, None])
        self.same("now the best linear map gives exactly the targets", linear(self.hidden, w, b)[:, 0], self.y)

    def quiz(self) -> None:
        """Questions on it."""
        self.ask(
            f"The best line predicts {number(self.guess[0, 0])} at every corner, and the targets are "
            f"{', '.join(number(target) for target in self.y)}. What is its mean squared error?",
            lambda: mean_squared_error(self.guess, self.y[:, None]),
            "How far is each target from the prediction? Then square, and take the mean.",
        )
        self.ask(
            f"A ReLU unit has weights {number(self.W[0, 0])} and {number(self.W[1, 0])} and bias {number(self.c[0])}. "
            "What does it put out when only the first input is true?",
            lambda: relu(linear(self.x, self.W, self.c)),
            "First the weighted sum of the inputs, then the ReLU.",
            cell=(2, 0),
        )
