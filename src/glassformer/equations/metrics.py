"""How good guesses of classes are, in shares that people read: what a model is judged by, not trained by."""

from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.equation import equation


@equation(
    r"a = \frac{1}{N} \sum_n [\hat y_n = y_n]",
    meaning="The share of guesses that are right.",
    intuition="A quiz: right answers out of questions asked, however close the wrong ones came.",
    symbols={
        "guesses": "class chosen for each row, ŷ",
        "targets": "the right class of each row, y",
        "keep": "which rows count; all of them when none is given",
        "a": "accuracy",
    },
    names={"a": "accuracy"},
    flops=lambda: 1,
)
def accuracy(
    guesses: Int[Tensor, "*rows"], targets: Int[Tensor, "*rows"], keep: Bool[Tensor, "*rows"] | None = None
) -> Float[Tensor, ""]:
    """Accuracy of guesses: one when all are right."""
    right = guesses == targets
    return right.sum() / right.numel() if keep is None else (right & keep).sum() / keep.sum()


@accuracy.def_cell
def _accuracy_cell(index: tuple[int, ...], guesses: Tensor, targets: Tensor, keep: Tensor | None) -> str:
    right = guesses == targets
    right = right if keep is None else right[keep]
    return f"{int(right.sum())} / {right.numel()}"


@accuracy.def_check
def _accuracy_check(guesses: Tensor, keep: Tensor | None) -> None:
    count = guesses.numel() if keep is None else int(keep.sum())
    accuracy.require(count > 0, "guesses" if keep is None else "keep", "empty", "at least one row that counts")


@equation(
    r"F_c = \frac{2 C_{cc}}{\sum_j C_{cj} + \sum_i C_{ic}} = \frac{2 \, p_c r_c}{p_c + r_c}, \quad "
    r"p_c = \frac{C_{cc}}{\sum_i C_{ic}}, \quad r_c = \frac{C_{cc}}{\sum_j C_{cj}}",
    meaning="For each class the harmonic mean of precision p and recall r: high only where both are.",
    intuition="A fishing net: of little use if it brings up mostly weeds, and of little use if most fish slip past.",
    symbols={
        "confusion": "counts of rows, C: by their right class downwards, by the class chosen sideways",
        "F": "F1 of each class; zero for a class that neither came nor was chosen",
    },
    flops=lambda classes: classes,
)
def f1(confusion: Int[Tensor, "classes classes"]) -> Float[Tensor, " classes"]:
    """F1 of each class from the counts of all pairs of right and chosen class (van Rijsbergen, 1979)."""
    came, chosen = confusion.sum(1), confusion.sum(0)
    return 2 * confusion.diagonal() / (came + chosen).clamp_min(1)


@f1.def_cell
def _f1_cell(index: tuple[int, ...], confusion: Tensor) -> str:
    (c,) = index
    right, came, chosen = int(confusion[c, c]), int(confusion[c].sum()), int(confusion[:, c].sum())
    return f"2·{right} / ({came} + {chosen})" if came + chosen else "0"


@f1.def_check
def _f1_check(confusion: Tensor) -> None:
    f1.require((confusion >= 0).all(), "confusion", "negative in places", "counts, zero or more")
