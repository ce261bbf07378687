"""The linear model and its gradients."""

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.algebra import linear, scale
from glassformer.equations.losses import mean_squared_error
from glassformer.equations.matrices import matmul, transpose
from glassformer.equations.optimizers import gradient_descent


class LinearModelWalk(Walk):
    """Predict with a matrix, measure the error, and let the error say how the matrix should change."""

    @step(
        "Predict",
        like="A price list: whatever is in the basket, the bill is the amount of each thing times its price, plus the "
        "bag.",
    )
    def predict(self) -> None:
        """Each row of X is an example, each column of W makes one output: a weighted sum of the inputs plus a bias.
        All examples go through the same weights at once.
        """
        self.example = self.given("mse-matrix-gradients")
        self.X, self.W, self.b, self.Y = self.example.tensors("X", "W", "b", "Y_true")
        self.guess = linear(self.X, self.W, self.b)
        self.show(self.guess, (0, 0), (1, 1))
        alone = linear(self.X[1], self.W, self.b)
        self.same("an example by itself gives the same prediction", alone, self.guess[1])

    @step("Measure", like="A strict judge who forgives a hair's breadth and never forgets a mile.")
    def measure(self) -> None:
        """The loss is the mean squared distance of the predictions from the targets. Squaring makes one large error
        cost more than several small ones that add up to it.
        """
        self.loss = mean_squared_error(self.guess, self.Y)
        self.show(self.loss)
        targets, errors = self.tensor([[0.0, 0.0]]), self.tensor([[2.0, 0.0], [1.0, 1.0]])
        large, small = (mean_squared_error(row[None], targets) for row in errors)
        self.less(
            f"one error of {number(errors[0, 0])} costs {number(large)}, two errors of {number(errors[1, 0])} together "
            f"cost {number(small)}",
            small,
            large,
        )

    @step(
        "Backward",
        like="After a bad meal the blame goes to each ingredient in proportion to how much of it went in.",
    )
    def go_back(self) -> None:
        """The tape runs backward. First comes the gradient of the predictions: how the loss changes with each of them.
        Then comes the gradient of the matrix: for each weight, the errors weighted by the inputs it multiplied.
        """
        self.flow(self.loss)
        self.found = self.back(self.loss)
        self.show_gradient(self.found, self.guess, "∂L/∂Ŷ")
        self.show_gradient(self.found, self.W, "∂L/∂W")
        self.show_gradient(self.found, self.b, "∂L/∂b")
        for name, tensor in (("W", self.W), ("b", self.b), ("Ŷ", self.guess)):
            self.claim(f"the gradient of {name} has the shape of {name}", self.found[tensor].shape == tensor.shape)
        by_hand = scale(matmul(transpose(self.X), self.guess - self.Y), 2 / len(self.X))
        self.show(by_hand, (0, 0))
        self.same("the formula written out by hand gives the same", by_hand, self.found[self.W])

    @step(
        "Step, then measure again",
        like="Every instrument of an orchestra tunes a little at the same signal; then they all listen again.",
    )
    def step_and_look_again(self) -> None:
        """All parameters step together, against their gradients, with one learning rate for all of them."""
        rate = self.example.get("alpha", float)
        W_new, b_new = (
            gradient_descent(self.W, self.found[self.W], rate),
            gradient_descent(self.b, self.found[self.b], rate),
        )
        self.show(W_new, (0, 1))
        again = mean_squared_error(linear(self.X, W_new, b_new), self.Y)
        self.claim(f"the loss falls from {number(self.loss)} to {number(again)}", again < self.loss)
        self.beside(
            "mse-matrix-gradients",
            Y_hat=self.guess,
            L=self.loss,
            dW=self.found[self.W],
            db=self.found[self.b],
            W_new=W_new,
            b_new=b_new,
        )

    @step(
        "Many rows at once, and back through the transpose",
        like="A mailman who brings letters up a street can bring the answers back down it, but that does not unwrite "
        "them.",
    )
    def many_rows_at_once(self) -> None:
        """Multiplying many rows by a matrix gives the same as each row by itself, which is why a whole sequence is
        processed at once. On the way back a gradient goes through the transpose: this does not undo the map, it
        only hands each input its part of the gradient.
        """
        H, M = self.given("block-row-matmul").tensors("H", "W")
        whole = linear(H, M)
        self.show(whole, (2, 0))
        self.claim(
            "row by row gives the same", all(bool((linear(row, M) == whole[i]).all()) for i, row in enumerate(H))
        )
        h, Q = self.given("transpose-is-not-inverse").tensors("h", "W")
        out = linear(h, Q)
        there_and_back = linear(out, transpose(Q))
        self.show(there_and_back, (0,))
        self.same("a gradient goes back through the transpose", self.back(out, out)[h], there_and_back)
        self.differ(
            f"the transpose does not lead back to h = ({number(h[0])}, {number(h[1])})", there_and_back, h, by=1
        )
        self.beside("transpose-is-not-inverse", h_W_WT=there_and_back)

    def quiz(self) -> None:
        """Questions on it."""
        x, w = self.tensor([[2.0, -1.0]]), self.tensor([[0.5], [3.0]])
        self.ask(
            f"x = {number(x[0, 0])}, {number(x[0, 1])} and W = {number(w[0, 0])}, {number(w[1, 0])}: what is xW?",
            lambda: linear(x, w),
            "Multiply entry by entry and add up.",
            cell=(0, 0),
        )
        self.ask(
            f"X has shape {self.X.shape[0]}×{self.X.shape[1]} and W has shape "
            f"{self.W.shape[0]}×{self.W.shape[1]}. What is the shape of ∂L/∂W?",
            lambda: tuple(self.found[self.W].shape),
            "The step subtracts it from something, entry by entry. From what?",
        )
        self.ask(
            "The loss of that one example is its squared error, and its target is zero. What is ∂L/∂W for the first "
            "weight?",
            lambda: scale(matmul(transpose(x), linear(x, w)), 2.0),
            "Squaring brings a factor of two; then the error meets the input that this weight multiplied.",
            cell=(0, 0),
        )
