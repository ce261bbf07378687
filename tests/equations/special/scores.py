"""Arguments of the scores: classes chosen and right, and which of them count."""

from tests.equations.drawing import Draw


def accuracy(draw: Draw) -> dict[str, object]:
    """Guesses and targets, and perhaps which of them count, at least one."""
    rows = (*draw.lead(), draw.integer(1, 6))
    keep = draw.flags(*rows)
    keep.view(-1)[0] = True
    guesses, targets = draw.below(3, *rows), draw.below(3, *rows)
    return {"guesses": guesses, "targets": targets, "keep": keep if draw.choose(True, False) else None}
