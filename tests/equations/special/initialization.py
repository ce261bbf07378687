"""Arguments of the initial values."""

from tests.equations.drawing import Draw


def uniform(draw: Draw) -> dict:
    return _tensor(draw) | {"bound": draw.number(0.0, 2.0)}


def normal(draw: Draw) -> dict:
    return _tensor(draw) | {"std": draw.number(0.0, 2.0)}


def scaled_normal(draw: Draw) -> dict:
    return normal(draw) | {"layers": draw.integer(1, 48)}


def truncated_normal(draw: Draw) -> dict:
    return normal(draw) | {"cut": draw.number(0.1, 4.0)}


def _tensor(draw: Draw) -> dict:
    return {"shape": draw.lead(3), "generator": draw.generator, "dtype": draw.dtype}


def xavier_uniform(draw: Draw) -> dict:
    sizes = {"inputs": draw.integer(1, 8), "outputs": draw.integer(1, 8)}
    return sizes | {"generator": draw.generator, "dtype": draw.dtype}


xavier_normal = xavier_uniform
he_normal = xavier_uniform
