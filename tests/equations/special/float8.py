"""Arguments of linear layers in 8-bit floats: often of the sizes that the fused product takes."""

from tests.equations.drawing import Draw


def float8_linear(draw: Draw) -> dict:
    inputs, outputs = draw.choose((3, 5), (16, 32), (32, 16), (16, 4))
    b = draw.choose(None, draw.normal(outputs))
    return {"x": draw.normal(*draw.lead(), inputs), "W": draw.normal(inputs, outputs), "b": b}
