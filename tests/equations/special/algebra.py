"""Arguments of the algebra and plumbing equations whose values matter."""

from tests.equations.drawing import Draw


def scale(draw: Draw) -> dict:
    return {"x": draw.normal(*draw.lead(), 2), "c": draw.number(-2, 2)}


def line(draw: Draw) -> dict:
    return {"x": draw.normal(*draw.lead()), "m": draw.number(-2, 2), "b": draw.number(-2, 2)}


def residual(draw: Draw) -> dict:
    shape = (*draw.lead(), draw.integer(1, 4))
    return {"h": draw.normal(*shape), "f": draw.normal(*shape), "alpha": draw.choose(1.0, 0.1)}


def split_heads(draw: Draw) -> dict:
    heads = draw.integer(1, 4)
    return {"x": draw.normal(*draw.lead(), draw.integer(1, 4), heads * draw.integer(1, 3)), "heads": heads}


def repeat_kv(draw: Draw) -> dict:
    groups = draw.integer(1, 3)
    x = draw.normal(*draw.lead(1), groups, draw.integer(1, 3), draw.integer(1, 3))
    return {"x": x, "heads": groups * draw.integer(1, 3)}


def concat(draw: Draw) -> dict:
    rows, axis = draw.integer(1, 3), draw.choose(-1, 1)
    return {"parts": [draw.normal(rows, draw.integer(1, 3)) for _ in range(draw.integer(1, 3))], "axis": axis}
