"""Arguments of low-rank adaptation: matrices that fit together, and a factor."""

from tests.equations.drawing import Draw


def merge_lora(draw: Draw) -> dict:
    inputs, rank, outputs = draw.integer(1, 4), draw.integer(1, 3), draw.integer(1, 4)
    return {
        "W": draw.normal(inputs, outputs),
        "A": draw.normal(inputs, rank),
        "B": draw.normal(rank, outputs),
        "alpha": draw.number(0.5, 4),
    }


def lora(draw: Draw) -> dict:
    matrices = merge_lora(draw)
    inputs, outputs = matrices["W"].shape
    return {"x": draw.normal(*draw.lead(), inputs), **matrices, "b": draw.choose(None, draw.normal(outputs))}
