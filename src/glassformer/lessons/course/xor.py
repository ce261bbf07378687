"""Exclusive or: what a line cannot do and a bend can."""

from glassformer.arithmetic import number
from glassformer.equations.activations import relu, sigmoid
from glassformer.equations.algebra import linear, matmul, transpose
from glassformer.equations.losses import mean_squared_error
from glassformer.lessons.walk import Walk, step
from glassformer.worked.networks import least_squares

CORNERS = ("neither", "second", "first", "both")


class XorWalk(Walk):
    """One or the other, but not both: no straight line parts these four points, and two bends do."""

    @step(
        "Four points",
        like="Two couples at the corners of a table, partners opposite: no single ruler laid on the table parts couple "
        "from couple.",
    )
    def four_points(self) -> None:
        """True when exactly one of two inputs is true. Draw the four corners of a square: the true ones lie on one
        diagonal, the false ones on the other, and no straight cut has one kind on each side.
        """
        given = self.given("xor-linear-fit")
        self.x, self.y = given.tensors("inputs", "targets")
        self.table(
            ("corner", "first", "second", "exclusive or"),
            [(n, *row, t) for n, row, t in zip(CORNERS, self.x, self.y, strict=True)],
        )
        self.plot(
            "true and false corners",
            {
                "true": (self.x[self.y == 1][:, 0].tolist(), self.x[self.y == 1][:, 1].tolist()),
                "false": (self.x[self.y == 0][:, 0].tolist(), self.x[self.y == 0][:, 1].tolist()),
            },
            "first input",
            joined=False,
        )

    @step(
        "The best line says nothing",
        like="Asked where the two ends of a see-saw are, a rigid answer can only point at the middle.",
    )
    def best_line_says_nothing(self) -> None:
        """Of all linear maps the one with the smallest error gives the same answer at every corner: halfway. It is not
        that training failed; there is nothing better to find.
        """
        w, b = (
            found.round(decimals=12) for found in least_squares(self.x, self.y[:, None])
        )  # less the noise of the solver
        self.guess = linear(self.x, w, b)
        error = mean_squared_error(self.guess, self.y[:, None])
        self.show(self.guess, (1, 0), rows=CORNERS)
        self.beside("xor-linear-fit", predictions=self.guess[:, 0], mse=error)
        self.same("every corner gets the same guess", self.guess, self.guess[0])

    @step(
        "Stacking lines gives a line",
        like="Two panes of clear glass, one behind the other, are still a pane of clear glass.",
    )
    def stacking_lines_gives_a_line(self) -> None:
        """Two linear maps in a row are one linear map: multiply their matrices. Depth without a bend adds nothing."""
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
        "Sigmoids: one watches for either, one for not both",
        like="A club with two doormen: one lets in whoever has a ticket, the other turns away whoever has two.",
    )
    def sigmoids_one_watches_for_either(self) -> None:
        """The first hidden unit answers whether any input is true, the second whether not both are; the output asks
        for both answers at once. The weights are large, so that the smooth curve is nearly a switch.
        """
        given = self.given("xor-sigmoid")
        W, c, v, x = given.tensors("W", "c", "w", "inputs")
        hidden = sigmoid(linear(x, transpose(W), c))
        out = sigmoid(linear(hidden, v[:, None], given.tensor("b")[None]))
        self.show(hidden, (0, 0), rows=CORNERS)
        self.show(out, (1, 0), rows=CORNERS)
        self.beside("xor-sigmoid", hidden=hidden, output=out[:, 0], rounded=out[:, 0].round().long())

    @step(
        "ReLUs: the difference, either way round",
        like="Two scales that each show only a surplus: together they show that the pans differ, whichever is heavier.",
    )
    def relus_the_difference_either_way(self) -> None:
        """One unit keeps the first less the second when that is positive, the other the second less the first. Added
        up they say how different the inputs are. In print a shift puts the answer exactly on the threshold, where a
        hair decides; without the shift the answers are zero and one.
        """
        given = self.given("xor-relu")
        self.W, self.c, v, self.x = given.tensors("W", "c", "w", "inputs")
        self.hidden = relu(linear(self.x, self.W, self.c))
        out = relu(linear(self.hidden, v[:, None], given.tensor("b")[None]))
        self.show(self.hidden, (1, 0), (1, 1), rows=CORNERS)
        self.beside("xor-relu", hidden=self.hidden, output=out[:, 0])
        exact = relu(linear(self.hidden, v[:, None]))
        self.show(exact, (1, 0), rows=CORNERS)
        self.claim("without the shift the network gives exactly the targets", bool((exact[:, 0] == self.y).all()))

    @step(
        "What the hidden layer did",
        like="Fold the sheet of paper, and one straight cut goes through what were two places.",
    )
    def what_the_hidden_layer_did(self) -> None:
        """In the hidden layer's own two numbers the corners lie elsewhere: both false corners fall on one point, and
        now a straight line is enough.
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
        self.claim("the two false corners have become one point", bool((self.hidden[0] == self.hidden[3]).all()))

    def quiz(self) -> None:
        """Questions on it."""
        self.ask(
            "How large is the mean squared error of the best line?",
            lambda: mean_squared_error(self.guess, self.y[:, None]),
            f"It says {number(self.guess[0, 0])} everywhere, and every target is as far from that.",
        )
        self.ask(
            "What does the first hidden ReLU give when only the first input is true?",
            lambda: relu(linear(self.x, self.W, self.c)),
            "Its weights are in the first column of W.",
            cell=(2, 0),
        )
