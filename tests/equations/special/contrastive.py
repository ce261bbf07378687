"""Arguments of contrastive learning: pairs, and temperatures of both kinds."""

from tests.equations.drawing import Draw


def contrastive_loss(draw: Draw) -> dict[str, object]:
    """Pairs of vectors, and a temperature as a number or as a tensor."""
    batch, dim = draw.integer(1, 4), draw.integer(1, 5)
    temperature = draw.positive() if draw.choose(True, False) else draw.choose(0.07, 1.0)
    return {"image": draw.normal(batch, dim), "text": draw.normal(batch, dim), "temperature": temperature}


def logit_scale(draw: Draw) -> dict[str, object]:
    """Logarithms of scales, some beyond the largest."""
    return {"s": 3 * draw.normal(*draw.lead()), "largest": draw.choose(100.0, 0.5)}
