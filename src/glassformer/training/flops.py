"""How much arithmetic learning takes, counted on a tape of a run that computes nothing."""

import torch
from torch.func import functional_call

from glassformer.data.batches import Batch
from glassformer.equation import catalog, no_checks
from glassformer.recording import Tape
from glassformer.training.objective import LossModule

BACK = 3  # a step backward takes about twice the products of a step forward


def operations_per_token(loss_module: LossModule, batch: Batch) -> float:
    """Operations, forward and backward, for each token of a batch such as this one."""
    inputs = {name: value.to("meta") for name, value in batch.items()}
    weights = {name: torch.empty(value.shape, device="meta") for name, value in loss_module.state_dict().items()}
    with torch.no_grad(), no_checks(), Tape() as tape:
        functional_call(loss_module, weights, (inputs,))
    equations = catalog()
    flops = sum(equations[step.equation.name].cost(**step.inputs).flops for step in tape.steps)
    return BACK * flops / max(loss_module.objective.tokens(batch), 1)
