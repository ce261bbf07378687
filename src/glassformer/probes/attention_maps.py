"""Who looked at whom: the attention weights of one run, by place in the model."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from glassformer.recording import Tape


def attention_maps(model: nn.Module, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights [batch, heads, queries, keys] of every attention, by its place, such as `decoder.blocks.0.cross`."""
    with torch.no_grad(), Tape() as tape:
        model(**inputs)
    found: dict[str, Tensor] = {}
    for step in tape.steps:
        if step.equation.name == "attention":
            (weights,) = (part.output for part in step.children if part.equation.name == "softmax")
            found[step.path.removesuffix(".attention")] = weights
    return found
