"""Arguments of the equations of word vectors: counts of words, thresholds, vectors with clear main directions."""

import torch
from torch import Tensor

from tests.equations.drawing import Draw


def _counts(draw: Draw) -> Tensor:
    found = draw.below(50, draw.integer(1, 6))
    found[0] += 1
    return found


def noise_distribution(draw: Draw) -> dict[str, object]:
    """Counts, at least one of them above zero, and an exponent."""
    return {"n": _counts(draw), "alpha": draw.choose(0.0, 0.75, 1.0)}


def keep_probability(draw: Draw) -> dict[str, object]:
    """Counts and a threshold."""
    return {"n": _counts(draw), "t": draw.choose(1e-5, 1e-3, 0.1, 2.0)}


def principal_components(draw: Draw) -> dict[str, object]:
    """Vectors whose variances differ clearly, since equal ones have no first direction."""
    dim = draw.integer(2, 4)
    spread = torch.tensor([1.0, 3.0, 9.0, 27.0])[:dim].to(draw.dtype)
    return {"X": draw.normal(dim + 6, dim) * spread, "k": draw.integer(1, dim)}
