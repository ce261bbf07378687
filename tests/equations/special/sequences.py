"""Arguments of the sequence equations whose values matter."""

from tests.equations.drawing import Draw


def slice_axis(draw: Draw) -> dict:
    """A piece of any axis: in the middle, at an end, or all of it."""
    shape = (*draw.lead(), draw.integer(1, 5), draw.integer(1, 3))
    axis = draw.integer(-len(shape), len(shape) - 1)
    start = draw.integer(0, shape[axis] - 1)
    return {"x": draw.normal(*shape), "axis": axis, "start": start, "stop": draw.integer(start + 1, shape[axis])}


def select_position(draw: Draw) -> dict:
    seq = draw.integer(1, 4)
    return {"x": draw.normal(*draw.lead(), seq, 3), "t": draw.integer(-seq, seq - 1)}


def stack_steps(draw: Draw) -> dict:
    shape = (*draw.lead(), draw.integer(1, 3))
    return {"steps": [draw.normal(*shape) for _ in range(draw.integer(1, 3))]}


def last_token(draw: Draw) -> dict:
    batch, seq = draw.lead(), draw.integer(1, 4)
    return {"x": draw.normal(*batch, seq, 3), "mask": draw.choose(None, draw.flags(*batch, seq))}


def mean_pool(draw: Draw) -> dict:
    batch, seq = draw.lead(), draw.integer(1, 4)
    return {"x": draw.normal(*batch, seq, 3), "mask": draw.choose(None, draw.flags(*batch, seq))}


def select_each(draw: Draw) -> dict[str, object]:
    """Sequences, and a position of each."""
    batch, seq = draw.integer(1, 4), draw.integer(1, 4)
    return {"x": draw.normal(batch, seq, draw.integer(1, 4)), "t": draw.below(seq, batch)}
