"""Arguments of the norms whose values matter."""

from tests.equations.drawing import Draw


def layer_norm_outside(draw: Draw) -> dict:
    """Vectors of at least two numbers: one without variance has no gradient here."""
    d = draw.integer(2, 5)
    return {"x": draw.normal(*draw.lead(), d), "gamma": draw.normal(d), "beta": draw.normal(d)}
