"""Parameter groups over torch's fused optimisers, whose updates the update equations describe."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import AdamW, Muon, Optimizer

from glassformer.errors import CheckpointError, ConfigError
from glassformer.training.processes import parted, unsharded
from glassformer.training.recipe import Recipe


class Updates:
    """AdamW for all, or Muon for the matrices inside blocks and AdamW for the rest; one learning rate for both."""

    def __init__(self, model: nn.Module, recipe: Recipe) -> None:
        self.parameters = dict(model.named_parameters())
        if recipe.optimizer == "muon" and any(isinstance(p, DTensor) for p in self.parameters.values()):
            raise ConfigError('optimizer is muon, which needs whole matrices; use adamw, or run.sharing = "copies"')
        self.recipe = recipe
        inside = {
            n for n, p in self.parameters.items() if recipe.optimizer == "muon" and p.dim() == 2 and "blocks." in n
        }
        self.optimizers: list[Optimizer] = [self._adamw([n for n in self.parameters if n not in inside])]
        if inside:
            matrices = [self.parameters[name] for name in self.parameters if name in inside]
            self.optimizers.append(
                Muon(matrices, recipe.rate, recipe.decay, adjust_lr_fn="match_rms_adamw")  # one rate suits both
            )

    def _adamw(self, names: list[str]) -> AdamW:
        """Matrices decay, shifts and scales do not."""
        groups = [
            {
                "params": [self.parameters[n] for n in names if self.parameters[n].dim() > 1],
                "weight_decay": self.recipe.decay,
            },
            {"params": [self.parameters[n] for n in names if self.parameters[n].dim() <= 1], "weight_decay": 0.0},
        ]
        return AdamW([g for g in groups if g["params"]], self.recipe.rate, self.recipe.betas, fused=True)

    def update(self, rate: float, skip: Tensor | None = None) -> None:
        """Move every parameter by its gradient, and forget the gradients.

        `skip` is 1 to leave the parameters alone: a number on the device, which nobody waits for.
        """
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            if skip is None:
                optimizer.step()
            else:
                self._step_unless(skip, optimizer)
            optimizer.zero_grad(set_to_none=True)

    @torch.no_grad()
    def _step_unless(self, skip: Tensor, optimizer: Optimizer) -> None:
        if isinstance(optimizer, AdamW):
            optimizer.found_inf = skip  # pyright: ignore[reportAttributeAccessIssue] - its kernel looks at this itself
            optimizer.step()
            return
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        before = [p.detach().clone() for p in parameters]
        optimizer.step()
        for parameter, old in zip(parameters, before, strict=True):
            parameter.copy_(torch.where(skip.bool(), old, parameter))

    def state(self) -> dict[str, Tensor]:
        """Every number the optimisers remember, by parameter and role."""
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
            needed = "exp_avg" if isinstance(optimizer, AdamW) else "momentum_buffer"
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    optimizer.state[parameter] = self._remembered(parameter, state, needed)

    def _remembered(self, parameter: nn.Parameter, state: Mapping[str, Tensor], needed: str) -> dict[str, Tensor]:
        name = next(n for n, p in self.parameters.items() if p is parameter)
        found = {key.partition("/")[2]: value for key, value in state.items() if key.partition("/")[0] == name}
        if needed not in found:
            raise CheckpointError(f"the checkpoint has no {needed} of {name}: another optimiser or another model")
        return {role: parted(value.to(parameter.device), parameter) for role, value in found.items()}
