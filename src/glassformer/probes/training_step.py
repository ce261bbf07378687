"""A step of training, scrubbed: loss, gradient, clipping, moments and new weight, each by its equation."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import SGD, Adam, Muon, Optimizer

from glassformer.equations.adam import adam
from glassformer.equations.gradients import clip_gradient, global_norm
from glassformer.equations.muon import muon
from glassformer.equations.optimizers import gradient_descent, momentum, weight_decay
from glassformer.errors import TapeError, did_you_mean
from glassformer.probes.names import Names
from glassformer.probes.trace import Trace
from glassformer.recording import Tape
from glassformer.steps import Step

OptimizerState = Mapping[str, object]


@dataclass(frozen=True)
class TrainingStep:
    """One weight through one step: the trace of its equations, what they give, what the optimiser really did."""

    trace: Trace
    weight: str
    before: Tensor
    gradient: Tensor
    shown: Tensor
    actual: Tensor

    @property
    def difference(self) -> float:
        """How far the equations are from what the optimiser did."""
        return float((self.shown - self.actual).abs().max())


def training_step(
    model: nn.Module, optimizer: Optimizer, loss: Callable[[], Tensor], weight: str, max_grad_norm: float | None = None
) -> TrainingStep:
    """Take one real step of training, and show by equations how one weight came by its new value.

    `loss` runs the model and gives a single number; `weight` is a parameter by its name in the model.
    """
    parameters = dict(model.named_parameters())
    if weight not in parameters:
        raise TapeError(f"no parameter is called {weight!r}; {did_you_mean(weight, parameters)}")
    parameter = parameters[weight]
    with torch.no_grad(), torch.random.fork_rng(), Tape() as tape:  # the real step draws the same numbers again
        value = loss()
    found = tape.reverse(of=value, deep=True)
    found.require(parameters.values())
    if parameter not in found:
        raise TapeError(f"the loss does not depend on {weight}")
    before = {id(p): p.detach().clone() for p in parameters.values()}
    for p in parameters.values():
        if p in found:
            found.add(before[id(p)], found[p])
    begun = len(tape.steps)
    state = copy.deepcopy(dict(optimizer.state.get(parameter, {})))
    with torch.no_grad(), tape:
        gradient = found[parameter]
        if max_grad_norm is not None:
            norm = global_norm([found[p] for p in parameters.values() if p in found])
            gradient = clip_gradient(gradient, norm, max_grad_norm)
        shown = _update(optimizer, parameter, before[id(parameter)], gradient, state)
    names = Names(model, tape)
    part = Tape()
    part.steps = [
        *(_on_copies(step, before) for step in tape.steps[:begun] if _reads(step, parameter) or step.output is value),
        *tape.steps[begun:],
    ]
    _really_step(model, optimizer, loss, max_grad_norm)
    given = {names.readable(name): before[id(p)] for name, p in parameters.items()}
    given |= {f"gradient of {names.readable(weight)}": found[parameter]} | state
    trace = Trace(model, part, names, given, value, loss=value, gradients=found)
    actual = parameter.detach().clone()
    return TrainingStep(trace, weight, before[id(parameter)], found[parameter], shown, actual)


def _reads(step: Step, tensor: Tensor) -> bool:
    return any(each is tensor for each in step.input_tensors)


def _on_copies(step: Step, copies: Mapping[int, Tensor]) -> Step:
    """A step that remembers weights as they were, since the real step changes them in place."""
    inputs = {name: copies.get(id(value), value) for name, value in step.inputs.items()}
    same = replace(step, inputs=inputs, children=[])
    return replace(same, versions=tuple(tensor._version for tensor in same.input_tensors))


def _really_step(model: nn.Module, optimizer: Optimizer, loss: Callable[[], Tensor], clip: float | None) -> None:
    model.zero_grad(set_to_none=True)
    loss().backward()
    if clip is not None:
        clip_grad_norm_(model.parameters(), clip)
    optimizer.step()


def _update(optimizer: Optimizer, parameter: Tensor, theta: Tensor, g: Tensor, state: OptimizerState) -> Tensor:
    """The new weight by the equation of the optimiser's kind."""
    group = next((g for g in optimizer.param_groups if any(p is parameter for p in g["params"])), None)
    if group is None:
        raise TapeError("the optimiser does not hold this weight")
    if group.get("maximize") or group.get("amsgrad"):
        raise TapeError("there is no equation for maximize or amsgrad")
    for kind, update in _UPDATES.items():
        if isinstance(optimizer, kind):
            return update(theta, g, group, state)
    raise TapeError(f"there is no equation for {type(optimizer).__name__}; wanted Adam, AdamW, SGD or Muon")


def _adam_update(theta: Tensor, g: Tensor, group: OptimizerState, state: OptimizerState) -> Tensor:
    rate, decay, betas = float(str(group["lr"])), float(str(group["weight_decay"])), group["betas"]
    assert isinstance(betas, tuple)
    if decay and not group["decoupled_weight_decay"]:
        raise TapeError("there is no equation for Adam whose decay goes through the averages; use AdamW")
    if decay:
        theta = weight_decay(theta, rate, decay)
    m, v = (_remembered(state, role, g) for role in ("exp_avg", "exp_avg_sq"))
    step = int(_remembered(state, "step", torch.zeros((), device="cpu"))) + 1
    return adam(theta, g, m, v, step, rate, (float(betas[0]), float(betas[1])), float(str(group["eps"])))[0]


def _sgd_update(theta: Tensor, g: Tensor, group: OptimizerState, state: OptimizerState) -> Tensor:
    rate, beta = float(str(group["lr"])), float(str(group["momentum"]))
    if group["weight_decay"] or group["dampening"]:
        raise TapeError("there is no equation for SGD with decay or dampening")
    if not beta:
        return gradient_descent(theta, g, rate)
    return momentum(theta, g, _remembered(state, "momentum_buffer", g), rate, beta, bool(group["nesterov"]))[0]


def _muon_update(theta: Tensor, g: Tensor, group: OptimizerState, state: OptimizerState) -> Tensor:
    """Torch scales the step by the shape in one of two ways; the equation's own way is undone where it differs."""
    rate, (rows, columns) = float(str(group["lr"])), theta.shape
    own = math.sqrt(max(1.0, rows / columns))
    stretch = 0.2 * math.sqrt(max(rows, columns)) / own if group["adjust_lr_fn"] == "match_rms_adamw" else 1.0
    decay = float(str(group["weight_decay"])) / stretch
    buffer = _remembered(state, "momentum_buffer", g)
    beta, rounds = float(str(group["momentum"])), int(str(group["ns_steps"]))
    return muon(theta, g, buffer, rate * stretch, beta, decay, bool(group["nesterov"]), rounds)[0]


_UPDATES = {Adam: _adam_update, SGD: _sgd_update, Muon: _muon_update}


def _remembered(state: OptimizerState, role: str, like: Tensor) -> Tensor:
    """What the optimiser remembers, or the zeros it begins with."""
    value = state.get(role)
    return value if isinstance(value, Tensor) else torch.zeros_like(like)
