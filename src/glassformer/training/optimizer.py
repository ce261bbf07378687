"""Optimizers over parameter groups: torch's fused ones, whose updates the update equations describe."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import SGD, AdamW, Muon, Optimizer, RMSprop

from glassformer.errors import CheckpointError, ConfigError
from glassformer.torch_private import multiply_all, step_unless
from glassformer.training.distributed import parted, unsharded
from glassformer.training.recipe import Recipe


class Optimizers:
    """One optimizer for all parameters, or Muon for the matrices inside blocks and AdamW for the rest.

    Weight decay is that of AdamW for each of them: apart from the gradient, and of matrices alone.
    """

    def __init__(self, model: nn.Module, recipe: Recipe) -> None:
        self.parameters = dict(model.named_parameters())
        if recipe.optimizer == "muon" and any(isinstance(p, DTensor) for p in self.parameters.values()):
            raise ConfigError('optimizer is muon, which needs whole matrices; use adamw, or run.strategy = "ddp"')
        self.recipe = recipe
        everything = list(self.parameters.values())
        (beta, rho), rate = recipe.betas, recipe.learning_rate
        self.optimizers: list[Optimizer]
        self.shrunk: list[Tensor] = [
            p for p in everything if p.dim() > 1 and recipe.weight_decay
        ]  # by us, not the optimizer
        match recipe.optimizer:
            case "sgd":
                self.optimizers = [SGD(everything, rate)]
            case "momentum":
                self.optimizers = [SGD(everything, rate, beta)]
            case "rmsprop":
                self.optimizers = [RMSprop(everything, rate, rho)]
            case "adam" | "adamw" | "muon":
                self.optimizers, self.shrunk = self._adamw_and_muon(), []

    def _adamw_and_muon(self) -> list[Optimizer]:
        recipe, parameters = self.recipe, self.parameters
        inside = [n for n, p in parameters.items() if recipe.optimizer == "muon" and p.dim() == 2 and "blocks." in n]
        rest = [p for name, p in parameters.items() if name not in inside]
        groups = [
            {"params": [p for p in rest if p.dim() > 1], "weight_decay": recipe.weight_decay},
            {"params": [p for p in rest if p.dim() <= 1], "weight_decay": 0.0},
        ]
        found: list[Optimizer] = [
            AdamW([g for g in groups if g["params"]], recipe.learning_rate, recipe.betas, fused=True)
        ]
        if inside:
            matrices = [parameters[name] for name in inside]
            found.append(
                Muon(matrices, recipe.learning_rate, recipe.weight_decay, adjust_lr_fn="match_rms_adamw")
            )  # one rate for both
        return found

    def update(self, rate: float, skip: Tensor | None = None) -> None:
        """Move every parameter by its gradient, and forget the gradients.

        `skip` is 1 to leave the parameters alone: a number on the device, which nobody waits for.
        """
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            if skip is None:
                self._step(optimizer, rate)
            else:
                self._step_unless(skip, optimizer, rate)
            optimizer.zero_grad(set_to_none=True)

    @torch.no_grad()
    def _step(self, optimizer: Optimizer, rate: float) -> None:
        if self.shrunk:
            multiply_all(self.shrunk, 1 - rate * self.recipe.weight_decay)
        optimizer.step()

    @torch.no_grad()
    def _step_unless(self, skip: Tensor, optimizer: Optimizer, rate: float) -> None:
        if step_unless(skip, optimizer):
            return
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        before = [p.detach().clone() for p in parameters]
        self._step(optimizer, rate)
        for parameter, old in zip(parameters, before, strict=True):
            parameter.copy_(torch.where(skip.bool(), old, parameter))

    def state(self) -> dict[str, Tensor]:
        """Every number the optimizers remember, by parameter and role."""
        names = {id(parameter): name for name, parameter in self.parameters.items()}
        return {
            f"{names[id(parameter)]}/{role}": unsharded(
                value if isinstance(value, Tensor) else torch.as_tensor(value, device="cpu")
            )
            for optimizer in self.optimizers
            for parameter, values in optimizer.state.items()
            for role, value in sorted(values.items())  # processes that put shards together need one order
        }

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Remember what `state` gave."""
        for optimizer in self.optimizers:
            needed = _remembers(optimizer)
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    optimizer.state[parameter] = self._remembered(parameter, state, needed)

    def _remembered(
        self, parameter: nn.Parameter, state: Mapping[str, Tensor], needed: Sequence[str]
    ) -> dict[str, Tensor]:
        name = next(n for n, p in self.parameters.items() if p is parameter)
        found = {role: state[f"{name}/{role}"] for role in needed if f"{name}/{role}" in state}
        if lacking := [role for role in needed if role not in found]:
            raise CheckpointError(f"the checkpoint has no {lacking[0]} of {name}: another optimizer or another model")
        return {role: parted(value.to(parameter.device), parameter) for role, value in found.items()}


def _remembers(optimizer: Optimizer) -> Sequence[str]:
    """The roles of what an optimizer keeps of each parameter."""
    if isinstance(optimizer, AdamW):
        return ("exp_avg", "exp_avg_sq", "step")
    if isinstance(optimizer, RMSprop):
        return ("square_avg", "step")
    return ("momentum_buffer",) if isinstance(optimizer, Muon) or optimizer.defaults["momentum"] else ()
