"""Arguments of the metrics: predicted and right classes, and which examples count."""

from tests.equations.drawing import Draw


def accuracy(draw: Draw) -> dict[str, object]:
    """Predictions and targets, and perhaps which of them count, at least one."""
    shape = (*draw.lead(), draw.integer(1, 6))
    mask = draw.flags(*shape)
    mask.view(-1)[0] = True
    predictions, targets = draw.below(3, *shape), draw.below(3, *shape)
    return {"predictions": predictions, "targets": targets, "mask": mask if draw.choose(True, False) else None}


def recall_at_k(draw: Draw) -> dict[str, object]:
    """Scores with a right candidate for every query."""
    queries, candidates = draw.integer(1, 4), draw.integer(1, 5)
    right = draw.flags(queries, candidates)
    right[:, 0] = True
    return {"scores": draw.normal(queries, candidates), "right": right, "k": draw.integer(1, 5)}
