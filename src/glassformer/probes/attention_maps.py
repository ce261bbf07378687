"""Who looked at whom: the attention weights of one run, by place in the model."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from glassformer.recording import Tape


def attention_maps(model: nn.Module, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights [batch, heads, queries, keys] of every attention, by its place, such as `decoder.blocks.0.cross_attention`."""
    with torch.no_grad(), Tape() as tape:
        model(**inputs)
    every = [(top, step) for top in tape.steps for step in top.walk()]
    made = {id(step.output): step for _, step in every if step.equation.name in ("softmax", "dropout")}
    found: dict[str, Tensor] = {}
    for top, step in every:
        if step.equation.name == "weighted_sum":
            weights = made[id(step.inputs["a"])]
            if weights.equation.name == "dropout":  # in training some weights are dropped afterwards
                weights = made[id(weights.inputs["x"])]
            found[top.path.removesuffix(f".{top.equation.name}")] = weights.output
    return found
