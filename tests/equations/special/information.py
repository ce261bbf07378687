"""Arguments of the information equations whose values matter."""

from tests.equations.drawing import Draw


def softmax_jacobian(draw: Draw) -> dict[str, object]:
    """A distribution."""
    return {"p": draw.distribution(*draw.lead(), draw.integer(1, 5))}


def entropy(draw: Draw) -> dict[str, object]:
    """A distribution."""
    return {"p": draw.distribution(*draw.lead(), draw.integer(1, 12))}


def cross_entropy_between(draw: Draw) -> dict[str, object]:
    """Two distributions over the same choices."""
    shape = (*draw.lead(), draw.integer(1, 12))
    return {"p": draw.distribution(*shape), "q": draw.distribution(*shape)}


def kl_divergence(draw: Draw) -> dict[str, object]:
    """Two distributions over the same choices."""
    return cross_entropy_between(draw)
