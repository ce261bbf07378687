"""Arguments of the norms whose values matter."""

from tests.equations.drawing import Draw


def layer_norm_outside(draw: Draw) -> dict:
    """Vectors of at least two numbers: one without variance has no gradient here."""
    d = draw.integer(2, 5)
    return {"x": draw.normal(*draw.lead(), d), "gamma": draw.normal(d), "beta": draw.normal(d)}


def group_norm(draw: Draw) -> dict:
    """At least two numbers in a group: one alone has no variance."""
    groups, each = draw.integer(1, 2), draw.integer(1, 2)
    channels = groups * each
    x = draw.normal(*draw.lead(), channels, draw.integer(2, 3), draw.integer(1, 3))
    return {"x": x, "gamma": draw.normal(channels), "beta": draw.normal(channels), "groups": groups}
