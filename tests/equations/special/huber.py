"""Arguments of the Huber loss."""

from tests.equations.drawing import Draw


def huber_loss(draw: Draw) -> dict[str, object]:
    """Residuals on both sides of the bend."""
    return {"x": draw.normal(*draw.lead()), "delta": draw.choose(1e-3, 0.5, 2.0)}
