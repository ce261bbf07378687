"""Arguments of standardizing: a mean and a deviation for each column."""

from tests.equations.drawing import Draw


def standardize(draw: Draw) -> dict[str, object]:
    """Rows of a few columns."""
    n = draw.integer(1, 4)
    mu, sigma = (tuple(draw.number(low, 3.0) for _ in range(n)) for low in (-3.0, 0.5))
    return {"x": draw.normal(*draw.lead(), n), "mu": mu, "sigma": sigma}


unstandardize = standardize
