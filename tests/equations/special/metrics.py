"""Arguments of the metrics: predicted and right classes, and which examples count."""

from tests.equations.drawing import Draw


def accuracy(draw: Draw) -> dict[str, object]:
    """Predictions and targets, and perhaps which of them count, at least one."""
    shape = (*draw.lead(), draw.integer(1, 6))
    mask = draw.flags(*shape)
    mask.view(-1)[0] = True
    predictions, targets = draw.below(3, *shape), draw.below(3, *shape)
    return {"predictions": predictions, "targets": targets, "mask": mask if draw.choose(True, False) else None}


def r_squared(draw: Draw) -> dict[str, object]:
    """Predictions and targets, at least two of which differ."""
    n = draw.integer(2, 6)
    y = draw.normal(n)
    y[0] += 1 + y[1] - y[0]
    return {"y_hat": draw.normal(n), "y": y}


def recall_at_k(draw: Draw) -> dict[str, object]:
    """Ranks from 1 on."""
    return {"ranks": 1 + draw.below(8, draw.integer(1, 5)), "k": draw.integer(1, 5)}


def average_ranks(draw: Draw) -> dict[str, object]:
    """Two or more numbers."""
    return {"x": draw.normal(draw.integer(2, 6))}


def correlation(draw: Draw) -> dict[str, object]:
    """Two lists of as many numbers."""
    n = draw.integer(2, 6)
    return {"x": draw.normal(n), "y": draw.normal(n)}


def rank_correlation(draw: Draw) -> dict[str, object]:
    """The same."""
    return correlation(draw)
