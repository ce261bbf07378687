"""A step of training, scrubbed: loss, gradient, clipping, moments and new weight, each by its equation."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import SGD, Adam, Muon, Optimizer

from glassformer.equations.adaptive import adam
from glassformer.equations.gradients import clip_gradient, global_norm
from glassformer.equations.optimizers import gradient_descent, momentum, weight_decay
from glassformer.equations.orthogonal import muon
from glassformer.errors import TapeError
from glassformer.probes.names import Names, nearest
from glassformer.probes.trace import Trace
from glassformer.recording import Tape

State = Mapping[str, object]


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
    model: nn.Module, optimizer: Optimizer, loss: Callable[[], Tensor], weight: str, clip: float | None = None
) -> TrainingStep:
    """Take one real step of training, and show by equations how one weight came by its new value.

    `loss` runs the model and gives a single number; `weight` is a parameter by its name in the model.
    """
    parameters = dict(model.named_parameters())
    if weight not in parameters:
        raise TapeError(f"no parameter is called {weight!r}; {nearest(weight, parameters)}")
    parameter = parameters[weight]
    before, state = parameter.detach().clone(), copy.deepcopy(dict(optimizer.state.get(parameter, {})))
    with torch.no_grad(), torch.random.fork_rng(), Tape() as tape:  # the real step draws the same numbers again
        value = loss()
    found = tape.reverse(of=value, deep=True)
    if parameter not in found:
        raise TapeError(f"the loss does not depend on {weight}")
    users = [step for step in tape.steps if any(tensor is parameter for tensor in step.input_tensors)]
    begun = len(tape.steps)
    with torch.no_grad(), tape:
        gradient = found[parameter]
        if clip is not None:
            norm = global_norm([found[p] for p in parameters.values() if p in found])
            gradient = clip_gradient(gradient, norm, clip)
        shown = _update(optimizer, parameter, before, gradient, state)
    names = Names(model, tape)
    ended = next(step for step in tape.steps if step.output is value)
    part = Tape()
    part.steps = [*users, *([] if ended in users else [ended]), *tape.steps[begun:]]
    _really_step(model, optimizer, loss, clip)
    trace = Trace(model, part, names, {}, value, loss=value, gradients=found)
    return TrainingStep(trace, weight, before, found[parameter], shown, parameter.detach().clone())


def _really_step(model: nn.Module, optimizer: Optimizer, loss: Callable[[], Tensor], clip: float | None) -> None:
    model.zero_grad(set_to_none=True)
    loss().backward()
    if clip is not None:
        clip_grad_norm_(model.parameters(), clip)
    optimizer.step()


def _update(optimizer: Optimizer, parameter: Tensor, theta: Tensor, g: Tensor, state: State) -> Tensor:
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


def _adam_update(theta: Tensor, g: Tensor, group: State, state: State) -> Tensor:
    rate, decay, betas = float(str(group["lr"])), float(str(group["weight_decay"])), group["betas"]
    assert isinstance(betas, tuple)
    if decay and not group["decoupled_weight_decay"]:
        raise TapeError("there is no equation for Adam whose decay goes through the averages; use AdamW")
    if decay:
        theta = weight_decay(theta, rate, decay)
    m, v = (_remembered(state, role, g) for role in ("exp_avg", "exp_avg_sq"))
    step = int(_remembered(state, "step", torch.zeros(()))) + 1
    return adam(theta, g, m, v, step, rate, (float(betas[0]), float(betas[1])), float(str(group["eps"])))[0]


def _sgd_update(theta: Tensor, g: Tensor, group: State, state: State) -> Tensor:
    rate, beta = float(str(group["lr"])), float(str(group["momentum"]))
    if group["weight_decay"] or group["dampening"]:
        raise TapeError("there is no equation for SGD with decay or dampening")
    if not beta:
        return gradient_descent(theta, g, rate)
    return momentum(theta, g, _remembered(state, "momentum_buffer", g), rate, beta, bool(group["nesterov"]))[0]


def _muon_update(theta: Tensor, g: Tensor, group: State, state: State) -> Tensor:
    """Torch scales the step by the shape in one of two ways; the equation's own way is undone where it differs."""
    rate, (rows, columns) = float(str(group["lr"])), theta.shape
    own = math.sqrt(max(1.0, rows / columns))
    stretch = 0.2 * math.sqrt(max(rows, columns)) / own if group["adjust_lr_fn"] == "match_rms_adamw" else 1.0
    decay = float(str(group["weight_decay"])) / stretch
    buffer = _remembered(state, "momentum_buffer", g)
    beta, rounds = float(str(group["momentum"])), int(str(group["ns_steps"]))
    return muon(theta, g, buffer, rate * stretch, beta, decay, bool(group["nesterov"]), rounds)[0]


_UPDATES = {Adam: _adam_update, SGD: _sgd_update, Muon: _muon_update}


def _remembered(state: State, role: str, like: Tensor) -> Tensor:
    """What the optimiser remembers, or the zeros it begins with."""
    value = state.get(role)
    return value if isinstance(value, Tensor) else torch.zeros_like(like)
