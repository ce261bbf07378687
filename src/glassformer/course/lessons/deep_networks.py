"""From a slope to a deep network."""

import torch
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.activations import relu, sigmoid, tanh
from glassformer.equations.algebra import add, linear, multiply
from glassformer.equations.losses import mean_squared_error
from glassformer.equations.matrices import matmul
from glassformer.equations.optimizers import gradient_descent
from glassformer.equations.similarity import inner_product

FOUR_COLUMNS = (
    "one slope        a gradient        matrix gradients     a network",
    "",
    "  f(x)             f(x, y)            L(W, b)           forward:",
    "   │                  │                  │              X → Z₁ → A₁ → Ŷ → L",
    "   ▼                  ▼                  ▼              backward:",
    " df/dx         (∂f/∂x, ∂f/∂y)     (∂L/∂W, ∂L/∂b)        L → δ₂ → δ₁",
    "   │                  │                  │                   ↓    ↓",
    "   ▼                  ▼                  ▼                 ∇W₂   ∇W₁",
    "x − α·df/dx      (x,y) − α·∇f        W − α·∂L/∂W        all θ − α·∇θ",
)


class DeepNetworksWalk(Walk):
    """One idea in four sizes; which way the error flows; why depth needs a nonlinearity; and two relatives."""

    @step(
        "Four columns, one idea",
        like="A pocket calculator, a till, a bank: the sums grow, adding stays the same.",
    )
    def four_columns(self) -> None:
        """Measure the slope, step against it, let a rate say how far, repeat. On a parabola the slope is one number;
        on a bowl it is a row; for a linear model a matrix; for a network one array for each parameter. The rate is the
        same number for all of them.
        """
        self.diagram(FOUR_COLUMNS)
        rate = self.given("gd-x2-first-iterates").get("alpha", float)
        runs = [run(self, rate) for run in (_slope_run, _gradient_run, _matrix_run, _network_run)]
        self.table(
            ("", "parameters", "gradient", "loss before", "loss after"),
            [(name, count, grad, before, after) for name, count, grad, before, after in runs],
        )
        self.show(self.tape.steps[-1].output)
        self.claim("in all four one step lowers the loss", all(after < before for *_, before, after in runs))

    @step(
        "Which way the error flows",
        like="A complaint goes from the customer to the shop, from the shop to the factory, and only there to "
        "the machine.",
    )
    def which_way_the_error_flows(self) -> None:
        """The error starts at the output. From there it goes to the hidden layer, and at each layer the gradients of
        the weights branch off. One source draws the last arrows the other way round, from the weight gradients to the
        output error.
        """
        X, W1, b1, W2, b2, Y = self.given("mlp-backprop-prefactor").tensors("X", "W1", "b1", "W2", "b2", "Y_true")
        Z1 = linear(X, W1, b1)
        A1 = sigmoid(Z1)
        out = linear(A1, W2, b2)
        loss = mean_squared_error(out, Y)
        found = self.back(loss)
        self.show_gradient(found, out, "∂L/∂Ŷ, which is (2/N)·δ₂")
        self.show_gradient(found, Z1, "∂L/∂Z₁, which is (2/N)·δ₁")
        self.show_gradient(found, W1, "∂L/∂W₁")
        self.same("the hidden layer's error comes from the output's", found[Z1], found[out] @ W2.T * A1 * (1 - A1))
        self.same("and the first weights' gradient from the hidden layer's", found[W1], X.T @ found[Z1])

    @step(
        "A chain of functions",
        like="An assembly line: its length is the depth, the number of hands at each station the width.",
    )
    def chain_of_functions(self) -> None:
        """A feed-forward network is a chain of functions. The number of links is its depth, the size of the vectors
        between them its width; all but the last link are hidden layers. Together they approximate some function from
        examples of it. Nothing goes round in a circle, so the links form a directed graph without cycles.
        """
        x = self.tensor([[1.0, -2.0]])
        W = [
            self.tensor([[0.5, -1.0, 2.0], [1.0, 0.5, -0.5]]),
            self.tensor([[1.0, 0.0], [-1.0, 2.0], [0.5, 1.0]]),
            self.tensor([[2.0], [-0.5]]),
        ]
        first = relu(linear(x, W[0]))
        second = relu(linear(first, W[1]))
        y = linear(second, W[2])
        widths = [x.shape[-1], *(w.shape[-1] for w in W)]
        self.diagram(["x ──f₁──▶ hidden 1 ──f₂──▶ hidden 2 ──f₃──▶ y", f"widths: {' → '.join(map(str, widths))}"])
        self.show(first, (0, 1))
        self.show(y, (0, 0))
        self.claim("every link reads only what was made before it", _without_cycles(self))

    @step(
        "Without a nonlinearity depth is nothing",
        like="Ten sheets of window glass behind each other are still a window; one lens makes a picture.",
    )
    def without_a_bend(self) -> None:
        """Two linear layers in a row are one linear layer, whose matrix is the product of both. Ten would be one as
        well. An activation between them bends the map, and then no single matrix gives the same, with a bias or
        without.
        """
        x = self.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        W1, W2 = self.tensor([[1.0, -1.0], [-1.0, 1.0]]), self.tensor([[1.0], [1.0]])
        stacked, folded = linear(linear(x, W1), W2), linear(x, matmul(W1, W2))
        bent = linear(relu(linear(x, W1)), W2)
        self.show(folded)
        self.show(bent)
        self.same("two linear layers are one", stacked, folded)
        best = torch.linalg.lstsq(torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1), bent).solution
        straight = linear(x, best[:2], best[2])
        self.differ("no matrix and bias give the bent one, not even the best", straight, bent, by=0.1)

    @step(
        "Features of features, and convolution",
        like="Letters make words and words make sentences; nobody spells a novel.",
    )
    def features_of_features(self) -> None:
        """Depth lets a layer build on what the one before has found: in images edges, then parts, then faces. Here the
        first layer finds where a row of pixels rises, and the second whether there are two rises. The first layer uses
        the same two weights at every position: that is a convolution, a feed-forward layer whose matrix repeats itself.
        """
        pixels = self.tensor([[0.0, 1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0, 1.0]])
        kernel = self.tensor([-1.0, 1.0])
        band = torch.stack(
            [torch.roll(torch.cat([kernel, torch.zeros(3, dtype=kernel.dtype)]), i) for i in range(4)], 1
        )
        rises = relu(linear(pixels, band))
        pairs = relu(linear(rises, torch.ones(4, 1, dtype=kernel.dtype), self.tensor([-1.0])))
        self.show(rises, (0, 0), rows=("two bars", "one bar"))
        self.show(pairs, (0, 0), (1, 0), rows=("two bars", "one bar"))
        by_torch = torch.nn.functional.conv1d(pixels[:, None], kernel[None, None])[:, 0]
        self.same("the banded matrix is a convolution", linear(pixels, band), by_torch)
        self.claim("the second layer responds to two bars only", bool(pairs[0] > 0) and bool(pairs[1] == 0))

    @step(
        "Feedback: recurrent networks",
        like="A diary: what you write today depends on today, and on what you read of yesterday.",
    )
    def feedback(self) -> None:
        """Feed the hidden state back in at the next step and the network is recurrent. Unrolled over a sequence it is a
        deep feed-forward network whose layers share their weights, so the gradient of the shared matrix is the sum of
        the gradients from each step. A Transformer has no such loop: each of its layers has its own weights.
        """
        inputs = self.tensor([[0.5, -1.0], [1.0, 0.25], [-0.5, 0.75]])
        U = self.tensor([[0.5, -0.3], [0.8, 0.4]])
        end = _unrolled(inputs, [U] * len(inputs))
        shared = self.back(end, torch.ones_like(end))[U]
        copies = [U.clone() for _ in inputs]
        apart = _unrolled(inputs, copies)
        found = self.back(apart, torch.ones_like(apart))
        self.show(end, (0,))
        self.show_gradient(found, copies[-1], "gradient at the last step")
        self.same("both networks end in the same hidden state", apart, end)
        # The first copy meets no earlier hidden state, so it has no part in the result.
        self.same("the shared gradient is the sum over the steps", shared, sum(found[c] for c in copies[1:]))

    def quiz(self) -> None:
        """Questions on it."""
        W1, W2 = self.tensor([[2.0, 1.0]]), self.tensor([[3.0], [-1.0]])
        self.ask(
            f"Two linear layers: x becomes ({number(W1[0, 0])}·x, {number(W1[0, 1])}·x), and that becomes "
            f"{number(W2[0, 0])} times the first less the second. By what number is x multiplied in all?",
            lambda: matmul(W1, W2),
            "Multiply the two matrices.",
            cell=(0, 0),
        )
        seen = self.tensor([[0.0, 3.0, 3.0, 5.0]])
        self.ask(
            f"The kernel minus one, one slides over {', '.join(map(number, seen[0]))}. What is its last output?",
            lambda: add(seen[:, 1:], -seen[:, :-1]),
            "Each number less the one before it.",
            cell=(0, 2),
        )


def _without_cycles(walk: Walk) -> bool:
    """Whether no step on the tape reads what a later one made."""
    made = {id(output): index for index, each in enumerate(walk.tape.steps) for output in each.outputs}
    steps = enumerate(walk.tape.steps)
    return all(made.get(id(given), -1) < index for index, each in steps for given in each.input_tensors)


def _slope_run(walk: Walk, rate: float) -> tuple[str, int, Tensor, float, float]:
    x = walk.given("gd-x2-first-iterates").tensor("x0")
    height = multiply(x, x)
    slope = walk.back(height)[x]
    new = gradient_descent(x, slope, rate)
    return "one slope", 1, slope, float(height), float(multiply(new, new))


def _gradient_run(walk: Walk, rate: float) -> tuple[str, int, Tensor, float, float]:
    point = walk.given("gd-two-variable").tensor("point")
    height = inner_product(point, point)
    found = walk.back(height)[point]
    new = gradient_descent(point, found, rate)
    return "a gradient", len(point), found, float(height), float(inner_product(new, new))


def _matrix_run(walk: Walk, rate: float) -> tuple[str, int, Tensor, float, float]:
    X, W, b, Y = walk.given("mse-matrix-gradients").tensors("X", "W", "b", "Y_true")
    loss = mean_squared_error(linear(X, W, b), Y)
    found = walk.back(loss)
    new = [gradient_descent(p, found[p], rate) for p in (W, b)]
    return (
        "matrix gradients",
        W.numel() + b.numel(),
        found[W],
        float(loss),
        float(mean_squared_error(linear(X, *new), Y)),
    )


def _network_run(walk: Walk, rate: float) -> tuple[str, int, Tensor, float, float]:
    example = walk.given("mlp-backprop-prefactor")
    X, Y = example.tensors("X", "Y_true")
    weights = list(example.tensors("W1", "b1", "W2", "b2"))

    def loss_of(W1: Tensor, b1: Tensor, W2: Tensor, b2: Tensor) -> Tensor:
        return mean_squared_error(linear(sigmoid(linear(X, W1, b1)), W2, b2), Y)

    loss = loss_of(*weights)
    found = walk.back(loss)
    new = [gradient_descent(p, found[p], rate) for p in weights]
    return "a network", sum(p.numel() for p in weights), found[weights[0]], float(loss), float(loss_of(*new))


def _unrolled(inputs: Tensor, weights: list[Tensor]) -> Tensor:
    """A recurrent network written out: one layer for each input, each with its own matrix."""
    row = tanh(inputs[0])
    for x, U in zip(inputs[1:], weights[1:], strict=True):
        row = tanh(add(x, linear(row, U)))
    return row
