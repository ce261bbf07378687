"""Mini-batches: stochastic gradient descent."""

from itertools import pairwise

import torch
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.algebra import linear
from glassformer.equations.losses import mean_squared_error
from glassformer.equations.optimizers import gradient_descent
from glassformer.recording import Tape

EXAMPLES, SIZES = 64, (1, 4, 16, 64)


class MiniBatchesWalk(Walk):
    """A gradient from a few examples: what it costs, how far it is off, and why it gets there sooner."""

    @step(
        "The gradient of many is a mean of gradients",
        like="The average wish of a crowd is the wishes of all, added up and divided.",
    )
    def gradient_is_a_mean(self) -> None:
        """The loss of a data set is the mean over its examples, so its gradient is the mean of theirs. To compute it
        exactly, every example has to be looked at before the first step.
        """
        true, self.noise = self.tensor([[2.0], [-1.0]]), 0.5
        random = torch.Generator().manual_seed(0)
        self.X = torch.randn(EXAMPLES, 2, generator=random, dtype=torch.float64)
        self.Y = self.X @ true + self.noise * torch.randn(EXAMPLES, 1, generator=random, dtype=torch.float64)
        self.start = self.tensor([[0.0], [0.0]])
        loss = mean_squared_error(linear(self.X, self.start), self.Y)
        found = self.back(loss)
        self.full = found[self.start]
        self.show_gradient(found, self.start, f"gradient over all {EXAMPLES} examples")
        self.each = torch.stack(
            [_batch_gradient(self.X[i : i + 1], self.Y[i : i + 1], self.start) for i in range(EXAMPLES)]
        )
        self.same("it is the mean of the gradients of single examples", self.each.mean(0), self.full)

    @step(
        "A few examples give an estimate",
        like="A poll: a thousand answers tell nearly as much as all of them, and four times as many halve the error.",
    )
    def few_examples_give_an_estimate(self) -> None:
        """Take the gradient of a few examples drawn at random, a mini-batch. On average it is the full gradient; a
        single one is off by some amount, which shrinks with the root of the batch size. Four times the batch halves
        the error.
        """
        random, rows = torch.Generator().manual_seed(1), []
        for size in SIZES[:3]:
            drawn = torch.stack([_some_examples(size, random) for _ in range(400)])
            off = (self.each[drawn].mean(1) - self.full).square().sum((1, 2)).mean().sqrt()
            rows.append((size, off, self.each.sub(self.full).square().sum((1, 2)).mean().div(size).sqrt()))
        self.table(("batch size", "off by, on average", "spread of one / √size"), rows)
        some = _some_examples(4, random)
        loss = mean_squared_error(linear(self.X[some], self.start), self.Y[some])
        batch = self.back(loss)[self.start]
        self.show(loss)
        self.differ("one mini-batch of four differs from the full gradient", batch, self.full, by=0.05)
        epoch = torch.randperm(EXAMPLES, generator=random).reshape(-1, 4)
        mean = torch.stack([_batch_gradient(self.X[part], self.Y[part], self.start) for part in epoch]).mean(0)
        self.same("averaged over an epoch the mini-batches give it exactly", mean, self.full)
        ratios = [float(a[1] / b[1]) for a, b in pairwise(rows)]
        self.same("four times the batch halves the error, nearly", self.tensor(ratios), 2.0, within=0.2)

    @step(
        "Many rough steps beat one exact one",
        like="Asking the way at every corner gets you there before the one who studies the whole map first.",
    )
    def many_rough_steps(self) -> None:
        """An epoch looks at every example once. With the whole set as one batch that is one step; with mini-batches of
        four it is sixteen steps for the same work. Early on, rough steps go nearly the right way, and many of them
        get farther. This is stochastic gradient descent.
        """
        self.rate = 0.1
        self.curves = {
            size: _losses_descending((self.X, self.Y), self.start, size, self.rate, 3) for size in (4, EXAMPLES)
        }
        self.plot(
            "loss over all examples, by examples looked at",
            {f"batch {size}": ([i * size for i in range(len(losses))], losses) for size, losses in self.curves.items()},
            across="examples looked at",
        )
        self.show(self.tape.steps[-1].output)
        small, whole = (losses[-1] for losses in self.curves.values())
        self.less(
            f"after three epochs the mini-batches have {number(small)}, the whole batch {number(whole)}", small, whole
        )

    @step(
        "The noise stays",
        like="A boat tied to a mooring in choppy water: it stays near, and never lies still.",
    )
    def noise_stays(self) -> None:
        """Close to the bottom the full gradient fades and the noise of the batches does not: with a constant rate the
        parameters keep moving about. A smaller rate, or a schedule that lowers it, lets them settle.
        """
        best = torch.linalg.lstsq(self.X, self.Y).solution
        floor = float(mean_squared_error(linear(self.X, best), self.Y))
        rows = []
        for rate in (0.3, 0.1, 0.02):
            losses = _losses_descending((self.X, self.Y), best, 4, rate, 6)
            rows.append((rate, sum(losses[32:]) / len(losses[32:]) - floor))
        self.show(mean_squared_error(linear(self.X, best), self.Y))
        self.table(("learning rate", "mean loss above the lowest possible"), rows)
        excess = [row[1] for row in rows]
        self.claim("a smaller rate stays lower", excess == sorted(excess, reverse=True))
        self.less("even started at the minimum, the largest rate does not stay there", 1e-3, excess[0])

    def quiz(self) -> None:
        """Questions on it."""
        goal, x = self.tensor([[1.0], [3.0]]), self.tensor([[1.0], [1.0]])
        w = self.tensor([[0.0]])
        self.ask(
            f"Two examples, both with x = {number(x[0, 0])}, wanted {number(goal[0, 0])} and {number(goal[1, 0])}; "
            f"the weight is {number(w[0, 0])}. What is the loss of both together?",
            lambda: mean_squared_error(linear(x, w), goal),
            "The mean of the two squares.",
        )
        self.ask(
            "And the weight after one step on the first example alone, with a rate of one quarter?",
            lambda: gradient_descent(w, 2 * (w - goal[:1]), 0.25),
            "The gradient is twice the error.",
            cell=(0, 0),
        )
        rows, size = 1000, 50
        self.ask(
            f"How many steps are in an epoch over {rows} examples in batches of {size}?",
            lambda: (rows // size,),
            "Every example once.",
        )


def _some_examples(size: int, random: torch.Generator) -> Tensor:
    return torch.randint(EXAMPLES, (size,), generator=random)


def _batch_gradient(X: Tensor, Y: Tensor, weights: Tensor) -> Tensor:
    """The gradient over these examples, by a tape that holds nothing else."""
    with Tape() as tape:
        loss = mean_squared_error(linear(X, weights), Y)
    return tape.reverse(of=loss)[weights]


def _losses_descending(
    data: tuple[Tensor, Tensor], weights: Tensor, size: int, rate: float, epochs: int
) -> list[float]:
    """Losses over all examples while descending by mini-batches, shuffled anew for every epoch."""
    (X, Y), losses, random = data, [], torch.Generator().manual_seed(2)
    for _ in range(epochs):
        for part in torch.randperm(EXAMPLES, generator=random).reshape(-1, size):
            losses.append(float((X @ weights - Y).square().mean()))
            weights = gradient_descent(weights, _batch_gradient(X[part], Y[part], weights), rate)
    losses.append(float(mean_squared_error(linear(X, weights), Y)))
    return losses
