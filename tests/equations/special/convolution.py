"""Arguments of the convolutions: filters that fit the picture, all strides and paddings."""

from tests.equations.drawing import Draw


def conv2d(draw: Draw) -> dict:
    """A filter no larger than the padded picture, and steps that may not reach its far edge."""
    padding, stride, channels, outputs = draw.integer(0, 2), draw.integer(1, 3), draw.integer(1, 2), draw.integer(1, 3)
    height, width = draw.integer(1, 5), draw.integer(1, 5)
    kernel = (draw.integer(1, min(3, side + 2 * padding)) for side in (height, width))
    return {
        "x": draw.normal(*draw.lead(), channels, height, width),
        "W": draw.normal(outputs, channels, *kernel),
        "b": draw.choose(None, draw.normal(outputs)),
        "stride": stride,
        "padding": padding,
    }


def upsample(draw: Draw) -> dict:
    """Pictures of any size, enlarged up to three times."""
    return {"x": draw.normal(*draw.lead(), 2, draw.integer(1, 3), draw.integer(1, 3)), "factor": draw.integer(1, 3)}
