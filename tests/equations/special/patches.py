"""Arguments of the patch equations whose values matter."""

from tests.equations.drawing import Draw


def patchify(draw: Draw) -> dict:
    """Pictures of any number of channels whose sides are whole patches."""
    size, rows, columns = draw.integer(1, 3), draw.integer(1, 3), draw.integer(1, 3)
    return {"x": draw.normal(*draw.lead(), draw.integer(1, 3), rows * size, columns * size), "size": size}


def unpatchify(draw: Draw) -> dict:
    """Patches of any number of channels that fill a rectangle."""
    size, rows, columns, channels = (draw.integer(1, 3) for _ in range(4))
    x = draw.normal(*draw.lead(), rows * columns, channels * size**2)
    return {"x": x, "size": size, "rows": rows}
