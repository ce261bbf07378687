"""Metrics that a model is evaluated by and not trained by: accuracy, F1, and recall of retrieval."""

from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.equation import equation
from glassformer.equations.ranges import whole
from glassformer.equations.special_ranges import counts


@equation(
    r"a = \frac{1}{N} \sum_n [\hat y_n = y_n]",
    meaning="The fraction of predictions that are right.",
    intuition="A quiz: right answers out of questions asked, however close the wrong ones came.",
    symbols={
        "predictions": "predicted class of each example, ŷ",
        "targets": "right class of each example, y",
        "mask": "true for examples that count; all of them if not given",
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
        "confusion": "confusion matrix C: examples by right class (row) and predicted class (column)",
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


@equation(
    r"R = \frac{1}{N} \sum_n [\text{rank}_n \le k]",
    meaning="How often the right candidate is among the first k of all candidates.",
    intuition="A lost-property desk that shows you five umbrellas: is yours among them?",
    symbols={
        "ranks": "rank of the right candidate of each query, 1 for the best",
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
