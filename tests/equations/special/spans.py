"""Arguments of spans: logits of starts and ends, positions where a span may lie, a finite fill for differences."""

from tests.equations.drawing import Draw


def span_logits(draw: Draw) -> dict[str, object]:
    """Two numbers for each position, and perhaps which of them are real."""
    rows, seq = draw.lead(), draw.integer(1, 6)
    mask = draw.flags(*rows, seq) if draw.choose(True, False) else None
    return {"x": draw.normal(*rows, seq, 2), "mask": mask, "fill": -50.0}


def span_scores(draw: Draw) -> dict[str, object]:
    """Logits, the longest span, and perhaps where it may lie."""
    return {**best_span(draw), "fill": -50.0}


def best_span(draw: Draw) -> dict[str, object]:
    """The same, without a fill."""
    rows, seq = draw.lead(), draw.integer(1, 6)
    mask = draw.flags(*rows, seq) if draw.choose(True, False) else None
    return {"z": draw.normal(*rows, 2, seq), "n": draw.integer(1, 7), "mask": mask}
