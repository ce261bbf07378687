"""Arguments of the similarity equations whose values matter."""

from tests.equations.drawing import Draw


def nearest(draw: Draw) -> dict[str, object]:
    """Queries, vectors to hold them against, and how many to give."""
    dim, n = draw.integer(1, 5), draw.integer(1, 6)
    return {"query": draw.normal(*draw.lead(), dim), "vectors": draw.normal(n, dim), "k": draw.integer(1, n)}


def nearest_by_cosine(draw: Draw) -> dict[str, object]:
    """The same."""
    return nearest(draw)


def random_cosine_rms(draw: Draw) -> dict[str, object]:
    """A width."""
    return {"dim": draw.integer(1, 20000)}


def score_variance(draw: Draw) -> dict[str, object]:
    """A width, a spread, a mean."""
    return {"head_dim": draw.integer(1, 512), "sigma": draw.number(0, 2), "mu": draw.number(-1, 1)}
