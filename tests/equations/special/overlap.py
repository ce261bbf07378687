"""Arguments of overlaps: two sequences of few kinds of token, and counts."""

from tests.equations.drawing import Draw


def shared_ngrams(draw: Draw) -> dict[str, object]:
    """Two sequences, perhaps empty, and the size of an n-gram."""
    return {**longest_common_subsequence(draw), "n": draw.integer(1, 3)}


def longest_common_subsequence(draw: Draw) -> dict[str, object]:
    """Two sequences, perhaps empty."""
    return {"a": draw.below(3, draw.integer(0, 6)), "b": draw.below(3, draw.integer(0, 6))}


def overlap_f1(draw: Draw) -> dict[str, object]:
    """Counts of what is shared and of both sides."""
    rows = draw.lead()
    shared, *sides = (draw.below(5, *rows) for _ in range(3))
    return {"shared": shared, "predicted": shared + sides[0], "reference": shared + sides[1]}
