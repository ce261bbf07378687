"""How weights are drawn, updated and averaged: initialization, optimizers, exponential moving average (EMA)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer, RMSprop

from glassformer.checkpoints.run_checkpoints import AVERAGE
from glassformer.equations.schedules import ema_warmup
from glassformer.equations.variance_scaling import he_normal, xavier_normal, xavier_uniform
from glassformer.errors import CheckpointError, ConfigError, RunFolderError
from glassformer.layers.basic import Linear
from glassformer.layers.model import Model
from glassformer.torch_private import lerp_all, multiply_all, step_unless
from glassformer.training.distributed import is_shard, sharded_like, unsharded
from glassformer.training.muon import BatchedMuon
from glassformer.training.recipe import Recipe
from glassformer.training.run_folder import RunFolder

INITIALIZATIONS: Mapping[str, Callable[..., Tensor]] = {
    equation.name: equation for equation in (he_normal, xavier_normal, xavier_uniform)
}


@torch.no_grad()
def initialize(model: Model, name: str, seed: int) -> None:
    """Draw the matrices of all linear layers; embeddings, norms and biases stay as the model has them.

    Each matrix of a fused weight is drawn by its own fan-out.
    """
    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, Linear):
            for matrix in module.weight.split(module.parts or module.weight.shape[1], 1):
                matrix.copy_(INITIALIZATIONS[name](*matrix.shape, generator=generator))


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are not frozen, by name."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


class Optimizers:
    """One fused optimizer for all trainable parameters, or Muon for the matrices inside blocks and AdamW for the rest.

    Weight decay is decoupled from the gradient, as in AdamW, and applies to matrices only.
    """

    def __init__(self, model: nn.Module, recipe: Recipe) -> None:
        self.parameters = trainable(model)
        if recipe.optimizer == "muon" and any(map(is_shard, self.parameters.values())):
            raise ConfigError('optimizer is muon, which needs whole matrices; use adamw, or run.strategy = "ddp"')
        self.recipe = recipe
        self._names = {id(parameter): name for name, parameter in self.parameters.items()}
        self._columns: dict[int, slice] = {}  # of a fused weight, by the matrix that stands in for them
        self._matrices: dict[str, list[nn.Parameter]] = {}  # of each fused weight that Muon updates
        everything = list(self.parameters.values())
        (beta, rho), rate = recipe.betas, recipe.learning_rate
        self.optimizers: list[Optimizer]
        self.decayed: list[Tensor] = [
            p for p in everything if p.dim() > 1 and recipe.weight_decay
        ]  # where the optimizer does not
        match recipe.optimizer:
            case "sgd":
                self.optimizers = [SGD(everything, rate)]
            case "momentum":
                self.optimizers = [SGD(everything, rate, beta)]
            case "rmsprop":
                self.optimizers = [RMSprop(everything, rate, rho)]
            case "adam" | "adamw" | "muon":
                self.optimizers, self.decayed = self._adamw_and_muon(model), []

    def _adamw_and_muon(self, model: nn.Module) -> list[Optimizer]:
        recipe, parameters = self.recipe, self.parameters
        inside = [n for n, p in parameters.items() if recipe.optimizer == "muon" and p.dim() == 2 and "blocks." in n]
        rest = [p for name, p in parameters.items() if name not in inside]
        groups = [
            {"params": [p for p in rest if p.dim() > 1], "weight_decay": recipe.weight_decay},
            {"params": [p for p in rest if p.dim() <= 1], "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        found: list[Optimizer] = []
        if groups:
            cuda = any(p.is_cuda for p in parameters.values())
            found.append(AdamW(groups, recipe.learning_rate, recipe.betas, fused=True, capturable=cuda))
        if inside:
            modules = dict(model.named_modules())
            matrices = [m for name in inside for m in self._matrices_of(name, modules[name.rpartition(".")[0]])]
            found.append(BatchedMuon(matrices, recipe.learning_rate, recipe.weight_decay))
        return found

    def _matrices_of(self, name: str, module: nn.Module) -> list[nn.Parameter]:
        """A weight, or views of the matrices that are fused in it: Muon orthogonalizes each of them alone."""
        weight = self.parameters[name]
        if not isinstance(module, Linear) or not module.parts:
            return [weight]
        self._matrices[name] = [nn.Parameter(matrix) for matrix in weight.detach().split(module.parts, 1)]
        start = 0
        for matrix in self._matrices[name]:
            self._names[id(matrix)], self._columns[id(matrix)] = name, slice(start, start + matrix.shape[1])
            start += matrix.shape[1]
        return self._matrices[name]

    @property
    def capturable(self) -> bool:
        """Whether an update can be captured in a CUDA graph: its learning rate is a tensor then."""
        return all(isinstance(each, AdamW | BatchedMuon) for each in self.optimizers)

    def update(self, rate: float | Tensor, skip: Tensor | None = None) -> None:
        """Update every parameter by its gradient, and clear the gradients.

        `skip` is 1 to leave the parameters alone: a tensor on the device, so that nothing waits for it.
        """
        for name, matrices in self._matrices.items():
            gradient, self.parameters[name].grad = self.parameters[name].grad, None
            for matrix in matrices:
                matrix.grad = None if gradient is None else gradient[:, self._columns[id(matrix)]].contiguous()
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            if skip is None:
                self._step(optimizer, rate)
            else:
                self._step_unless(skip, optimizer, rate)
            optimizer.zero_grad(set_to_none=True)

    @torch.no_grad()
    def _step(self, optimizer: Optimizer, rate: float | Tensor) -> None:
        if self.decayed:
            multiply_all(self.decayed, 1 - rate * self.recipe.weight_decay)
        optimizer.step()

    @torch.no_grad()
    def _step_unless(self, skip: Tensor, optimizer: Optimizer, rate: float | Tensor) -> None:
        if step_unless(skip, optimizer):
            return
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        before = [p.detach().clone() for p in parameters]
        self._step(optimizer, rate)
        for parameter, old in zip(parameters, before, strict=True):
            parameter.copy_(torch.where(skip.bool(), old, parameter))

    def state(self) -> dict[str, Tensor]:
        """The state of the optimizers, by parameter and role."""
        found: dict[str, list[Tensor]] = {}
        for optimizer in self.optimizers:
            for parameter, values in optimizer.state.items():
                for role, value in sorted(values.items()):  # processes that join their shards need one order
                    tensor = value if isinstance(value, Tensor) else torch.as_tensor(value, device="cpu")
                    found.setdefault(f"{self._names[id(parameter)]}/{role}", []).append(unsharded(tensor))
        return {key: parts[0] if len(parts) == 1 else torch.cat(parts, 1) for key, parts in found.items()}

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        for optimizer in self.optimizers:
            needed = _roles(optimizer)
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    optimizer.state[parameter] = self._saved(parameter, state, needed)

    def _saved(self, parameter: nn.Parameter, state: Mapping[str, Tensor], needed: Sequence[str]) -> dict[str, Tensor]:
        name, columns = self._names[id(parameter)], self._columns.get(id(parameter))
        found = {role: state[f"{name}/{role}"] for role in needed if f"{name}/{role}" in state}
        if missing := [role for role in needed if role not in found]:
            raise CheckpointError(f"the checkpoint has no {missing[0]} of {name}: another optimizer or another model")
        if columns is not None:
            found = {role: value[:, columns].contiguous() for role, value in found.items()}
        return {role: sharded_like(value.to(parameter.device), parameter) for role, value in found.items()}


def _roles(optimizer: Optimizer) -> Sequence[str]:
    """The names of the tensors that an optimizer keeps of each parameter."""
    if isinstance(optimizer, AdamW):
        return ("exp_avg", "exp_avg_sq", "step")
    if isinstance(optimizer, RMSprop):
        return ("square_avg", "step")
    return ("momentum_buffer",) if isinstance(optimizer, BatchedMuon) or optimizer.defaults["momentum"] else ()


class EMA:
    """Exponential moving average (EMA) of the trainable weights, used for evaluation; `ema_warmup` sets its decay."""

    def __init__(self, model: Model, decay: float) -> None:
        self.decay = decay
        self.parameters = trainable(model)
        self.weights = {name: value.detach().clone() for name, value in self.parameters.items()}

    def weight_at(self, step: int) -> float:
        """How much the weights after a step, counted from 1, weigh in the average."""
        return 1 - ema_warmup(step, self.decay)

    @torch.no_grad()
    def update(self, weight: float | Tensor) -> None:
        """Move towards the weights as they are now."""
        now = [value.detach() for value in self.parameters.values()]
        lerp_all(list(self.weights.values()), now, weight)

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """The average in place of the model's weights, while inside."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for name, value in self.parameters.items():
            kept = value.detach().clone()
            value.copy_(self.weights[name])
            self.weights[name].copy_(kept)

    def state(self) -> dict[str, Tensor]:
        """The tensors that a checkpoint holds."""
        return {AVERAGE + name: unsharded(value) for name, value in self.weights.items()}

    @torch.no_grad()
    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        for name, value in self.weights.items():
            if AVERAGE + name not in state:
                raise CheckpointError(f"the checkpoint has no average of {name}: `recipe.ema_decay` was 0")
            value.copy_(sharded_like(state[AVERAGE + name], value))


def average_checkpoints(folder: RunFolder, count: int) -> dict[str, Tensor]:
    """The mean of the weights of the last planned checkpoints (Vaswani et al., 2017, took five)."""
    steps = folder.planned()[-count:]
    if not steps:
        raise RunFolderError(f"{folder.path}: holds no checkpoint to average")
    newest = folder.load(steps[-1]).model
    total = {name: value.double() for name, value in newest.items()}
    for step in steps[:-1]:
        for name, value in folder.load(step).model.items():
            total[name] += value
    return {name: (value / len(steps)).to(newest[name].dtype) for name, value in total.items()}
