"""A network with one hidden layer, and backpropagation."""

from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.course.blueprint import Blueprint, Column
from glassformer.course.diagrams import flow_column
from glassformer.course.walk import Walk, step
from glassformer.equations.activations import relu, sigmoid
from glassformer.equations.algebra import linear, multiply
from glassformer.equations.losses import mean_squared_error
from glassformer.equations.matrices import matmul
from glassformer.equations.optimizers import gradient_descent
from glassformer.equations.similarity import inner_product
from glassformer.steps import Gradients
from glassformer.views.terminal import shape_text


class BackpropagationWalk(Walk):
    """Two matrices with a nonlinearity between them; the error goes back through both, and nudging agrees."""

    @step(
        "Forward",
        like="Two cooks in a row: the first mixes the dough, it must be baked in between, the second decorates.",
    )
    def forward(self) -> None:
        """A first matrix mixes the inputs, a nonlinearity bends the mixture, and a second matrix mixes again. Without
        the nonlinearity, two matrices would do no more than one.
        """
        self.example = self.given("mlp-backprop-prefactor")
        self.X, self.W1, self.b1, self.W2, self.b2, self.Y = self.example.tensors("X", "W1", "b1", "W2", "b2", "Y_true")
        self.Z1 = linear(self.X, self.W1, self.b1)
        self.A1 = sigmoid(self.Z1)
        self.guess = linear(self.A1, self.W2, self.b2)
        self.loss = mean_squared_error(self.guess, self.Y)
        self.show(self.Z1, (0, 0))
        self.show(self.A1, (0, 0))
        self.show(self.guess, (0, 0))
        self.show(self.loss)
        straight = linear(linear(self.X, self.W1), self.W2)
        joined = linear(self.X, matmul(self.W1, self.W2))
        self.same("without the sigmoid, one matrix, their product, does the same as the two", straight, joined)

    @step(
        "Backward",
        like="A complaint goes from the guest to the waiter to the cook to the market, and everyone hears their part "
        "of it.",
    )
    def backward(self) -> None:
        """The error starts at the output and is handed back: through the second matrix to the hidden layer, through
        the sigmoid, which lets little through where it is flat, and through the first matrix. On the way every
        parameter gets its own gradient.
        """
        self.flow(self.loss)
        self.found = self.back(self.loss)
        self.show_gradient(self.found, self.guess, "∂L/∂Ŷ")
        self.show_gradient(self.found, self.A1, "∂L/∂A₁")
        self.show_gradient(self.found, self.Z1, "∂L/∂Z₁")
        self.show_gradient(self.found, self.W2, "∂L/∂W₂")
        self.show_gradient(self.found, self.W1, "∂L/∂W₁")
        self.claim(
            "the sigmoid lets at most a quarter of each gradient through",
            (self.found[self.Z1].abs() <= self.found[self.A1].abs() / 4).all(),
        )
        for name, tensor in (("W₁", self.W1), ("W₂", self.W2), ("b₁", self.b1), ("b₂", self.b2)):
            self.claim(f"the gradient of {name} has the shape of {name}", self.found[tensor].shape == tensor.shape)

    @step(
        "From a slope to a network",
        like="One dial, a row of dials, a panel of dials, a room of panels: one question for each dial, asked at once.",
    )
    def from_a_slope_to_a_network(self) -> None:
        """A slope says how one number changes with one other. A gradient has a slope for each entry of a vector, a
        matrix of weights has one for each weight, and a network is a chain of such matrices. Forward, values go down;
        backward, at each arrow a gradient comes up that has the shape of the value.
        """
        x, w = self.X[0, 0], self.W1[:, 0]
        square, product, mixed = multiply(x, x), inner_product(self.X[0], w), linear(self.X, self.W1)
        mixed_loss = mean_squared_error(mixed, torch.zeros_like(mixed))
        found = [self.back(of) for of in (square, product, mixed_loss)]
        columns = (
            _column("slope", [("x", x), ("x²", square)], found[0]),
            _column("gradient", [("w", w), ("w · x", product)], found[1]),
            _column("matrix gradient", [("W", self.W1), ("X W", mixed), ("loss", mixed_loss)], found[2]),
            _column(
                "network",
                [("W₁", self.W1), ("X W₁ + b₁", self.Z1), ("sigmoid", self.A1), ("Ŷ", self.guess), ("loss", self.loss)],
                self.found,
            ),
        )
        lines = [line for column in columns for line in (*flow_column(column), "")]
        self.diagram(lines, Blueprint("Forward with solid arrows, gradients back with dashed ones", columns))
        pairs = [(found[0], x), (found[1], w), (found[2], self.W1), (self.found, self.W1)]
        alike = all(each[value].shape == value.shape for each, value in pairs)
        self.claim("each gradient has the shape of what it is the gradient of", alike)
        self.same("the slope of x² is twice x", found[0][x], 2 * x)
        self.same("the gradient of w · x with respect to w is x", found[1][w], self.X[0])

    @step(
        "The factor in front",
        like="A recipe for four written down as a recipe for two: everything is in proportion, and everything is half.",
    )
    def factor_in_front(self) -> None:
        """The slope of a mean of squares has a factor of two. One source leaves it out of the gradients, although they
        follow from the very loss it states; the tape says which factor is right.
        """
        factor = float((self.found[self.guess] / (self.guess - self.Y)).mean()) * self.example.get("N", int)
        self.same("the tape's gradient is two times the error, divided by the number of examples", factor, 2.0)
        self.beside(
            "mlp-backprop-prefactor",
            dW1=self.found[self.W1],
            dW2=self.found[self.W2],
            L=self.loss,
            prefactor_times_N=factor,
        )

    @step(
        "Is it true? Nudge a weight",
        like="To learn whether a faucet is hot or cold, turn it a little and hold your hand under the water.",
    )
    def is_it_true_nudge(self) -> None:
        """A gradient is a promise about what a small change does. Change one weight a little, run forward again, and
        compare: this is gradient checking, and it needs no gradient rule at all.
        """

        def loss(weights: Tensor) -> Tensor:
            return mean_squared_error(linear(sigmoid(linear(self.X, weights, self.b1)), self.W2, self.b2), self.Y)

        self.check_gradient("W₁", loss, self.W1, self.found[self.W1])

    @step("Step, all at once", like="Rowers who all correct their stroke at the same call, not one after another.")
    def step_all_at_once(self) -> None:
        """Every parameter steps against its own gradient, computed with the old values of all the others. Then it
        starts over: forward, loss, backward, step.
        """
        losses = [self.loss]
        for _ in range(30):
            slopes = self.back(losses[-1])
            self.W1, self.b1, self.W2, self.b2 = (
                gradient_descent(theta, slopes[theta], 0.5) for theta in (self.W1, self.b1, self.W2, self.b2)
            )
            losses.append(
                mean_squared_error(linear(sigmoid(linear(self.X, self.W1, self.b1)), self.W2, self.b2), self.Y)
            )
        self.plot("loss", {"loss": (range(len(losses)), [float(value) for value in losses])})
        self.claim(f"the loss falls from {number(losses[0])} to {number(losses[-1])}", losses[-1] < losses[0])

    @step("Another nonlinearity", like="A closed valve: neither the water nor the news of the leak gets through.")
    def another_bend(self) -> None:
        """ReLU is a switch. A hidden unit whose pre-activation is below zero is off: it puts out zero, and no gradient
        at all goes back through it. A unit that is on passes the gradient unchanged.
        """
        given = self.given("mlp-backprop-relu")
        X, self.W1, b1, W2, b2, Y = given.tensors("X", "W1", "b1", "W2", "b2", "Y_true")
        Z1 = linear(X, self.W1, b1)
        A1 = relu(Z1)
        guess = linear(A1, W2, b2)
        found = self.back(mean_squared_error(guess, Y))
        self.show(A1, (0, 0), (0, 2))
        self.show_gradient(found, Z1, "∂L/∂Z₁")
        self.claim("where a unit is off, its gradient is zero", (found[Z1][Z1 < 0] == 0).all())
        self.same("where it is on, the gradient passes unchanged", found[Z1][Z1 > 0], found[A1][Z1 > 0], within=0.0)
        self.beside("mlp-backprop-relu", A1=A1, Y_hat=guess, dW1=found[self.W1], dW2=found[W2])

    def quiz(self) -> None:
        """Questions on it."""
        z = self.tensor([0.5])
        self.ask(
            f"What does the sigmoid make of {number(z[0])}?",
            lambda: sigmoid(z),
            "One over one plus e to the minus z.",
            cell=(0,),
        )
        self.ask(
            f"W₁ maps {self.W1.shape[0]} numbers to {self.W1.shape[1]}. What is the shape of its gradient?",
            lambda: tuple(self.W1.shape),
            "Every weight has one gradient.",
        )
        off = self.tensor([-0.3])
        self.ask(f"What does ReLU make of {number(off[0])}?", lambda: relu(off), "Is this unit on or off?", cell=(0,))


def _column(name: str, values: Sequence[tuple[str, Tensor]], found: Gradients) -> Column:
    """Values one after another, with their shapes and the shapes of their gradients."""
    (first, start), *made = values
    before = [start, *(value for _, value in made[:-1])]
    boxes = tuple((_shape(value), text) for value, (text, _) in zip(before, made, strict=True))
    gradients = tuple(f"∂ {_shape(found[value])}" for value in [*before, made[-1][1]])
    return Column(f"{name}: {first}", boxes, (_shape(made[-1][1]), ""), gradients)


def _shape(value: Tensor) -> str:
    return shape_text(value.shape) if value.dim() else "1 number"
