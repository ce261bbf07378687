"""Regularization: learning the rule instead of the examples."""

import torch
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.course.walk import Walk, step
from glassformer.equations.algebra import linear
from glassformer.equations.losses import cross_entropy, label_smoothing, mean_squared_error
from glassformer.equations.optimizers import gradient_descent, weight_decay
from glassformer.equations.regularization import apply_dropout, dropout
from glassformer.equations.similarity import l2_norm
from glassformer.equations.softmax import softmax

POWERS, UPDATES_LONG, LEARNING_RATE_HERE = 10, 120, 0.3


class RegularizationWalk(Walk):
    """Overfitting seen on a validation set, and four things against it."""

    @step(
        "Learning by heart",
        like="A pupil who knows last year's exam by heart: full marks on it, and none the wiser for this year's.",
    )
    def learning_by_heart(self) -> None:
        """A polynomial with as many coefficients as there are noisy points can pass through all of them. The training
        loss keeps falling; the loss on points that were held out, the validation loss, falls at first and then rises.
        What the model learns from there on is the noise.
        """
        random = torch.Generator().manual_seed(1)
        spread = float(self.tensor(0.3))
        points = 2 * torch.rand(2 * POWERS, generator=random, dtype=torch.float64) - 1
        values = torch.sin(3 * points) + spread * torch.randn(2 * POWERS, generator=random, dtype=torch.float64)
        # Chebyshev's polynomials: any polynomial is a mixture of them, and descent finds the mixture fast.
        X = torch.stack([torch.cos(i * points.acos()) for i in range(POWERS)], -1)
        taught, held = slice(POWERS), slice(POWERS, None)
        self.data = X[taught], values[taught, None], X[held], values[held, None]
        self.plain = _fitted(self.data, 0.0)
        self.plot(
            "loss",
            {
                "training": (range(len(self.plain[1])), self.plain[1]),
                "validation": (range(len(self.plain[2])), self.plain[2]),
            },
            logarithmic=True,
        )
        self.show(self.plain[3])
        lowest = min(self.plain[2])
        self.claim("the training loss never rises", self.plain[1] == sorted(self.plain[1], reverse=True))
        self.less(f"the validation loss ends above its lowest, {number(lowest)}", 1.02 * lowest, self.plain[2][-1])

    @step("Early stopping", like="Take the cake out when it is done, not when the timer of the oven runs out.")
    def early_stopping(self) -> None:
        """Keep the weights of the step with the lowest validation loss, and stop when it has not improved for a while,
        the patience. It costs nothing but a validation set.
        """
        _, training, validation, _ = self.plain
        best = validation.index(min(validation))
        patience = 20
        stopped = next(i for i in range(len(validation)) if i - _lowest_so_far(validation, i) >= patience)
        self.table(
            ("step", "training loss", "validation loss"),
            [(i, training[i], validation[i]) for i in (0, best, stopped, len(validation) - 1)],
        )
        self.claim("stopping with patience still finds the best step", _lowest_so_far(validation, stopped) == best)
        self.less("the stopped model is better on new points than the last one", validation[best], validation[-1])

    @step("Weight decay", like="A garden path that grows over unless someone keeps walking on it.")
    def weight_decay(self) -> None:
        """Shrink every weight a little at each step. Only weights that the data ask for again and again stay large;
        wild coefficients that serve a single point do not survive.
        """
        decayed = _fitted(self.data, float(self.tensor(0.03)))
        lengths = l2_norm(self.plain[0].flatten()), l2_norm(decayed[0].flatten())
        shrunk = weight_decay(self.tensor([2.0, -0.5]), 0.1, 0.5)
        self.show(shrunk, (0,), (1,))
        self.table(
            ("", "length of the weights", "training loss", "validation loss"),
            [
                ("plain", lengths[0], self.plain[1][-1], self.plain[2][-1]),
                ("with weight decay", lengths[1], decayed[1][-1], decayed[2][-1]),
            ],
        )
        self.less("the weights are shorter", lengths[1], lengths[0])
        self.less("the training loss is higher", self.plain[1][-1], decayed[1][-1])
        self.less("and the validation loss lower", decayed[2][-1], self.plain[2][-1])

    @step(
        "Dropout",
        like="A team that trains with someone missing every day does not come to depend on any one of them.",
    )
    def dropout(self) -> None:
        """In training, dropout sets a random fraction of the numbers to zero and scales the rest up, so that the mean
        stays. No unit can rely on another being there. At inference nothing is dropped.
        """
        rate = float(self.tensor(0.25))
        x, keep = self.tensor([1.0, -2.0, 0.5, 4.0]), self.tensor([1.0, 0.0, 1.0, 1.0])
        thinned = apply_dropout(x, keep, rate)
        self.show(thinned, (0,), (1,))
        random = torch.Generator().manual_seed(0)
        many = dropout(x.expand(4000, -1), rate, random)
        self.table(("", *(f"x{i}" for i in range(4))), [("as it is", *x), ("mean of many draws", *many.mean(0))])
        self.same("on average every number is what it was", many.mean(0), x, within=0.15)
        dropped = (many == 0).double().mean()
        self.same(f"and {number(dropped)} of the numbers are dropped", dropped, rate, within=0.02)

    @step(
        "Label smoothing",
        like="An honest forecast says ninety percent, even when it did rain every time so far.",
    )
    def label_smoothing(self) -> None:
        """Cross-entropy with a target of one is never satisfied: it asks for ever larger logits. Give a little of the
        target to all classes, and the best logits are finite: the probabilities that equal the smoothed target.
        """
        target = self.tensor([[1.0, 0.0, 0.0, 0.0]])
        soft = label_smoothing(target, 0.1)
        self.show(soft, (0, 0), (0, 1))
        rows = []
        for size in (2.0, 4.0, 8.0):
            logits = size * target
            rows.append((size, softmax(logits)[0, 0], cross_entropy(logits, target), cross_entropy(logits, soft)))
        self.table(("logit of the right class", "its probability", "loss", "loss, smoothed"), rows)
        plain, smoothed = ([row[i] for row in rows] for i in (2, 3))
        self.claim("without smoothing a larger logit always pays", plain == sorted(plain, reverse=True))
        self.less("with smoothing the largest costs more than the middle one", smoothed[1], smoothed[2])
        best = soft.log()
        found = self.back(cross_entropy(best, soft))
        self.same("where the probabilities equal the target the gradient is zero", found[best], 0.0)

    def quiz(self) -> None:
        """Questions on it."""
        x, keep, rate = self.tensor([3.0, 5.0]), self.tensor([1.0, 0.0]), 0.5
        self.ask(
            f"Dropout of one half keeps {number(x[0])} and drops {number(x[1])}. What becomes of the first?",
            lambda: apply_dropout(x, keep, rate),
            "What is kept is scaled up so that the mean stays.",
            cell=(0,),
        )
        hard = self.tensor([[0.0, 1.0, 0.0, 0.0, 0.0]])
        self.ask(
            f"One right class of {hard.shape[-1]}, smoothed by a fifth. What is the target of the right class?",
            lambda: label_smoothing(hard, 0.2),
            "Four fifths, and its part of the fifth that is shared out.",
            cell=(0, 1),
        )
        weight = self.tensor([10.0])
        self.ask(
            f"A weight of {number(weight[0])}, learning rate one tenth, weight decay one tenth. What is "
            f"left of it after "
            "the decay?",
            lambda: weight_decay(weight, 0.1, 0.1),
            "It loses rate times decay of itself.",
            cell=(0,),
        )


def _fitted(data: tuple[Tensor, ...], decay: float) -> tuple[Tensor, list[float], list[float], Tensor]:
    """Weights of a polynomial after many steps, the losses on both halves of the data, and the last training loss."""
    X, Y, X_held, Y_held = data
    weights = torch.zeros(POWERS, 1, dtype=torch.float64)
    training, validation, loss = [], [], Y.sum()
    for _ in range(UPDATES_LONG):
        loss = mean_squared_error(linear(X, weights), Y)
        training.append(float(loss))
        validation.append(float((X_held @ weights - Y_held).square().mean()))
        gradient = 2 / len(X) * X.T @ (X @ weights - Y)
        weights = weight_decay(gradient_descent(weights, gradient, LEARNING_RATE_HERE), LEARNING_RATE_HERE, decay)
    return weights, training, validation, loss


def _lowest_so_far(losses: list[float], step: int) -> int:
    """The step with the lowest loss up to some step."""
    return losses.index(min(losses[: step + 1]))
