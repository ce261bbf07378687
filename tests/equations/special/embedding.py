"""Arguments of the embedding equations whose values matter."""

import torch

from tests.equations.drawing import Draw


def embed(draw: Draw) -> dict:
    """Ids within the table, some more than once."""
    vocab = draw.integer(1, 5)
    ids = draw.below(vocab, *draw.lead(), draw.integer(1, 5)).to(draw.choose(torch.int32, torch.int64))
    return {"E": draw.normal(vocab, draw.integer(1, 4)), "ids": ids}


def one_hot(draw: Draw) -> dict:
    """Ids within the size."""
    size = draw.integer(1, 5)
    return {"ids": draw.below(size, *draw.lead(), 3), "size": size, "dtype": draw.dtype}
