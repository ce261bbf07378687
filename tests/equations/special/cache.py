"""Arguments of the cache equation whose values matter."""

import torch

from tests.equations.drawing import Draw


def write_slots(draw: Draw) -> dict:
    """Slots in any order, each once."""
    lead, slots, dim = draw.lead(), draw.integer(1, 5), draw.integer(1, 3)
    new = draw.integer(1, slots)
    at = torch.randperm(slots, generator=draw.generator)[:new]
    return {"cache": draw.normal(*lead, slots, dim), "new": draw.normal(*lead, new, dim), "at": at}
