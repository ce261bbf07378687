"""Metrics that a model is evaluated by and not trained by: accuracy, F1, recall of retrieval, correlations, R²."""

from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.arithmetic import dot, factor, number, total
from glassformer.equation import equation
from glassformer.equations.ranges import Require, finite, whole
from glassformer.equations.similarity import along_sphere, cosine_similarity, l2_norm, normalize
from glassformer.equations.special_ranges import counts


@equation(
    r"a = \frac{1}{N} \sum_n [\hat y_n = y_n]",
    meaning="The fraction of predictions that are right.",
    intuition="A quiz: right answers out of questions asked, however close the wrong ones came.",
    symbols={
        r"predictions=\hat y": "predicted class of each example, ŷ",
        "targets=y": "right class of each example, y",
        "mask=": "true for examples that count; all of them if not given",
        "a": "accuracy",
    },
    names={"a": "accuracy"},
    flops=lambda: 1,
)
def accuracy(
    predictions: Int[Tensor, "*batch"], targets: Int[Tensor, "*batch"], mask: Bool[Tensor, "*batch"] | None = None
) -> Float[Tensor, ""]:
    """Accuracy of predictions: one when all are right."""
    right = predictions == targets
    return right.sum() / right.numel() if mask is None else (right & mask).sum() / mask.sum()


@accuracy.def_cell
def _accuracy_cell(index: tuple[int, ...], predictions: Tensor, targets: Tensor, mask: Tensor | None) -> str:
    right = predictions == targets
    right = right if mask is None else right[mask]
    return f"{int(right.sum())} / {right.numel()}"


@accuracy.def_check
def _accuracy_check(predictions: Tensor, mask: Tensor | None) -> None:
    count = predictions.numel() if mask is None else int(mask.sum())
    symbol = "predictions" if mask is None else "mask"
    accuracy.require(count > 0, symbol, "empty", "at least one example that counts")


@equation(
    r"F_c = \frac{2 C_{cc}}{\sum_j C_{cj} + \sum_i C_{ic}} = \frac{2 \, p_c r_c}{p_c + r_c}, \quad "
    r"p_c = \frac{C_{cc}}{\sum_i C_{ic}}, \quad r_c = \frac{C_{cc}}{\sum_j C_{cj}}",
    meaning="For each class the harmonic mean of precision p and recall r: high only where both are.",
    intuition="A fishing net: of little use if it brings up mostly weeds, and of little use if most fish slip past.",
    symbols={
        "confusion=C": "confusion matrix C: examples by right class (row) and predicted class (column)",
        "F": "F1 of each class; zero for a class that neither occurs nor is predicted",
    },
    flops=lambda classes: classes,
    where={"confusion": counts},
)
def f1(confusion: Int[Tensor, "classes classes"]) -> Float[Tensor, " classes"]:
    """F1 of each class from a confusion matrix (van Rijsbergen, 1979)."""
    actual, predicted = confusion.sum(1), confusion.sum(0)
    return 2 * confusion.diagonal() / (actual + predicted).clamp_min(1)


@f1.def_cell
def _f1_cell(index: tuple[int, ...], confusion: Tensor) -> str:
    (c,) = index
    right, actual, predicted = int(confusion[c, c]), int(confusion[c].sum()), int(confusion[:, c].sum())
    return f"2·{right} / ({actual} + {predicted})" if actual + predicted else "0"


def _varied(require: Require, /, y: Tensor) -> None:
    """A condition: targets differ, or there is no variance to explain."""
    require(
        y.numel() > 1 and bool((y != y.flatten()[0]).any()), "y", "the same number throughout", "targets that differ"
    )


@equation(
    r"R^2 = 1 - \frac{\sum_n (\hat y_n - y_n)^2}{\sum_n (y_n - \bar y)^2}",
    meaning="The fraction of the targets' variance that predictions explain: one if all are right.",
    intuition="How much less is a weather forecast off than someone who always says the average?",
    symbols={r"y_hat=\hat y": "predictions", "y": "targets", "determination=R^2": "coefficient of determination"},
    flops=lambda n: 7 * n + 2,
    where={"y": _varied},
    upcast=True,
)
def r_squared(y_hat: Float[Tensor, " n"], y: Float[Tensor, " n"]) -> Float[Tensor, ""]:
    """The coefficient of determination of predictions (Wright, 1921)."""
    return 1 - (y_hat - y).square().sum() / (y - y.mean()).square().sum()


@r_squared.def_gradient(
    r"\bar{\hat y} = -2 \bar R \frac{\hat y - y}{S}, \quad"
    r" \bar y = -\bar{\hat y} + 2 \bar R (1 - R^2) \frac{y - \mu}{S}, \quad S = \sum_n (y_n - \mu)^2"
)
def _r_squared_gradient(
    determination_bar: Tensor, y_hat: Tensor, y: Tensor, determination: Tensor
) -> tuple[Tensor, Tensor]:
    apart = y - y.mean()
    total = apart.square().sum()
    y_hat_bar = -2 * determination_bar * (y_hat - y) / total
    return y_hat_bar, -y_hat_bar + 2 * determination_bar * (1 - determination) * apart / total


@r_squared.def_cell
def _r_squared_cell(index: tuple[int, ...], y_hat: Tensor, y: Tensor) -> str:
    left, total = (y_hat - y).square().sum(), (y - y.mean()).square().sum()
    return f"1 − {number(left)} / {number(total)}"


@equation(
    r"R = \frac{1}{N} \sum_n [\text{rank}_n \le k]",
    meaning="How often the right candidate is among the first k of all candidates.",
    intuition="A lost-property desk that shows you five umbrellas: is yours among them?",
    symbols={
        r"ranks=\text{rank}": "rank of the right candidate of each query, 1 for the best",
        "k": "number of candidates looked at",
        "R": "recall at k",
    },
    names={"R": "recall"},
    flops=lambda: 1,
    where={"k": whole},
)
def recall_at_k(ranks: Int[Tensor, " batch"], k: int) -> Float[Tensor, ""]:
    """Recall at k of a retrieval with one right candidate for each query; chance is k over the candidates."""
    return (ranks <= k).sum() / ranks.numel()


recall_at_k.def_cell(lambda index, ranks, k: f"{int((ranks <= k).sum())} / {ranks.numel()}")


@recall_at_k.def_check
def _recall_at_k_check(ranks: Tensor) -> None:
    recall_at_k.require(ranks.numel() > 0, "ranks", "empty", "at least one query")
    recall_at_k.require(bool((ranks >= 1).all()), "ranks", int(ranks.min()), "ranks from 1 on")


def _two_or_more(require: Require, /, **vectors: Tensor) -> None:
    for symbol, vector in vectors.items():
        require(len(vector) >= 2, symbol, f"of shape {list(vector.shape)}", "at least two numbers")
    finite(require, **vectors)


@equation(
    r"r_i = \frac{n + 1}{2} + \frac{1}{2} \sum_j \operatorname{sign}(x_i - x_j)",
    meaning="The rank of each number, from 1 for the smallest; equal numbers share the mean of their ranks.",
    intuition="Runners on the finish list: two who arrive together share second and third place as two and a half.",
    symbols={"x": "numbers", "r": "ranks"},
    names={"r": "ranks"},
    flops=lambda n: 3 * n * n + 2 * n,
    where={"x": _two_or_more},
)
def average_ranks(x: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Ranks with ties averaged (Kendall, 1945); they change in jumps, so the gradient is zero."""
    return (x[:, None] - x).sign().sum(-1) * 0.5 + (len(x) + 1) / 2


average_ranks.def_gradient(r"\bar x = 0")(lambda r_bar: 0 * r_bar)


@average_ranks.def_cell
def _average_ranks_cell(index: tuple[int, ...], x: Tensor) -> str:
    below, same = int((x < x[index]).sum()), int((x == x[index]).sum())
    return f"{below} + ({same} + 1) / 2"


@equation(
    r"\rho = \frac{\sum_i (x_i - \bar x)(y_i - \bar y)}{\sqrt{\sum_i (x_i - \bar x)^2} \sqrt{\sum_i (y_i - \bar y)^2}}",
    meaning="How far two lists of numbers rise and fall together: 1 in step, −1 opposed, 0 neither.",
    intuition="Two swings side by side: in time, out of time, or nothing to do with each other.",
    symbols={"x": "one list of numbers", "y": "the other", r"rho=\rho": "correlation, ρ; 0 where one list is constant"},
    names={"rho": "correlation"},
    flops=lambda n: 12 * n + 2,
    where={"x y": _two_or_more},
    upcast=True,
)
def correlation(x: Float[Tensor, " n"], y: Float[Tensor, " n"]) -> Float[Tensor, ""]:
    """The correlation of two lists of numbers (Pearson, 1895): the cosine of what is left without their means."""
    return cosine_similarity.fn(x - x.mean(), y - y.mean())


@correlation.def_gradient(
    r"\bar x = \frac{\bar\rho}{\|x - \bar x\|} (\hat y - \rho \hat x), \quad"
    r"\bar y = \frac{\bar\rho}{\|y - \bar y\|} (\hat x - \rho \hat y)"
)
def _correlation_gradient(rho_bar: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    u, v = x - x.mean(), y - y.mean()
    u_hat, v_hat = normalize.fn(u), normalize.fn(v)
    return along_sphere(rho_bar * v_hat, u_hat, l2_norm.fn(u)), along_sphere(rho_bar * u_hat, v_hat, l2_norm.fn(v))


@correlation.def_cell
def _correlation_cell(index: tuple[int, ...], x: Tensor, y: Tensor) -> str:
    u, v = x - x.mean(), y - y.mean()
    if not (u.any() and v.any()):
        return "0"
    squares = [f"√({total([f'{factor(a)}^2' for a in w.tolist()], w.square().tolist())})" for w in (u, v)]
    return f"({dot(u, v)}) / ({squares[0]}·{squares[1]})"


@equation(
    r"\rho_s = \rho(r(x), r(y))",
    meaning="How far two lists put the same things in the same order.",
    intuition="Two judges at a dog show: it counts whom they rank above whom, not how many points they give.",
    symbols={"x": "one list of numbers", "y": "the other", r"rho=\rho_s": "rank correlation, ρ_s"},
    names={"rho": "rank_correlation"},
    where={"x y": _two_or_more},
)
def rank_correlation(x: Float[Tensor, " n"], y: Float[Tensor, " n"]) -> Float[Tensor, ""]:
    """The correlation of ranks (Spearman, 1904), by which word vectors are held against people's judgments."""
    return correlation(average_ranks(x), average_ranks(y))
