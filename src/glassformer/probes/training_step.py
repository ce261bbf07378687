"""One training step by equations: loss, gradient, clipping, optimizer moments and the new weight."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import SGD, Adam, Muon, Optimizer, RMSprop

from glassformer.equations.adam import adam, rmsprop
from glassformer.equations.gradients import clip_gradient, global_norm
from glassformer.equations.muon import muon
from glassformer.equations.optimizers import gradient_descent, momentum, weight_decay
from glassformer.errors import TapeError
from glassformer.probes.names import Names
from glassformer.probes.trace import Trace
from glassformer.recording import Tape
from glassformer.steps import Step
from glassformer.suggestions import did_you_mean

OptimizerState = Mapping[str, object]


@dataclass(frozen=True)
class TrainingStep:
    """One weight through one step: the trace of its equations, their result, and the optimizer's result."""

    trace: Trace
    weight: str
    before: Tensor
    gradient: Tensor
    shown: Tensor
    actual: Tensor

    @property
    def difference(self) -> float:
        """The largest difference between the equations' result and the optimizer's."""
        return float((self.shown - self.actual).abs().max())


def training_step(
    model: nn.Module, optimizer: Optimizer, loss: Callable[[], Tensor], weight: str, max_grad_norm: float | None = None
) -> TrainingStep:
    """Take one real training step, and trace the equations that give one weight its new value.

    `loss` runs the model and returns a scalar; `weight` is the name of a parameter of the model.
    """
    parameters = dict(model.named_parameters())
    if weight not in parameters:
        raise TapeError(f"no parameter is called {weight!r}; {did_you_mean(weight, parameters)}")
    parameter = parameters[weight]
    with torch.no_grad(), torch.random.fork_rng(), Tape() as tape:  # the real step draws the same random numbers again
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
    forward, part = tape.steps[:begun], Tape()
    shown_steps = [s for s in forward if s.output is value or any(each is parameter for each in s.input_tensors)]
    part.steps = [*(_on_copies(step, before) for step in shown_steps), *tape.steps[begun:]]
    model.zero_grad(set_to_none=True)
    loss().backward()
    if max_grad_norm is not None:
        clip_grad_norm_(model.parameters(), max_grad_norm)
    optimizer.step()
    given = {names.readable(name): before[id(p)] for name, p in parameters.items()}
    given |= {f"gradient of {names.readable(weight)}": found[parameter]} | state
    trace = Trace(model, part, names, given, value, loss=value, gradients=found)
    actual = parameter.detach().clone()
    return TrainingStep(trace, weight, before[id(parameter)], found[parameter], shown, actual)


def _on_copies(step: Step, copies: Mapping[int, Tensor]) -> Step:
    """A step that reads copies of the weights, since the real step changes them in place."""
    inputs = {name: copies.get(id(value), value) for name, value in step.inputs.items()}
    same = replace(step, inputs=inputs, children=[])
    return replace(same, versions=tuple(tensor._version for tensor in same.input_tensors))


def _update(optimizer: Optimizer, parameter: Tensor, theta: Tensor, g: Tensor, state: OptimizerState) -> Tensor:
    """The new weight by the equation of the optimizer."""
    group = next((g for g in optimizer.param_groups if any(p is parameter for p in g["params"])), None)
    if group is None:
        raise TapeError(f"{type(optimizer).__name__} does not hold this weight")
    if group.get("maximize") or group.get("amsgrad"):
        raise TapeError("there is no equation for maximize or amsgrad")
    for kind, update in _UPDATES.items():
        if isinstance(optimizer, kind):
            return update(theta, g, group, state)
    raise TapeError(f"there is no equation for {type(optimizer).__name__}; wanted Adam, AdamW, SGD, RMSprop or Muon")


def _adam_update(theta: Tensor, g: Tensor, group: OptimizerState, state: OptimizerState) -> Tensor:
    rate, decay, betas = float(str(group["lr"])), float(str(group["weight_decay"])), group["betas"]
    assert isinstance(betas, tuple)
    if decay and not group["decoupled_weight_decay"]:
        raise TapeError("there is no equation for Adam with weight decay in the gradient; use AdamW")
    if decay:
        theta = weight_decay(theta, rate, decay)
    m, v = (_state(state, role, g) for role in ("exp_avg", "exp_avg_sq"))
    step = int(_state(state, "step", torch.zeros((), device="cpu"))) + 1
    return adam(theta, g, m, v, step, rate, (float(betas[0]), float(betas[1])), float(str(group["eps"])))[0]


def _sgd_update(theta: Tensor, g: Tensor, group: OptimizerState, state: OptimizerState) -> Tensor:
    rate, beta = float(str(group["lr"])), float(str(group["momentum"]))
    if group["weight_decay"] or group["dampening"]:
        raise TapeError("there is no equation for SGD with weight decay or dampening")
    if not beta:
        return gradient_descent(theta, g, rate)
    return momentum(theta, g, _state(state, "momentum_buffer", g), rate, beta, bool(group["nesterov"]))[0]


def _muon_update(theta: Tensor, g: Tensor, group: OptimizerState, state: OptimizerState) -> Tensor:
    """Torch has two factors for the shape of a matrix; where it uses the other one, the equation's is divided out."""
    rate, (rows, columns) = float(str(group["lr"])), theta.shape
    own = math.sqrt(max(1.0, rows / columns))
    stretch = 0.2 * math.sqrt(max(rows, columns)) / own if group["adjust_lr_fn"] == "match_rms_adamw" else 1.0
    decay = float(str(group["weight_decay"])) / stretch
    buffer = _state(state, "momentum_buffer", g)
    beta, rounds = float(str(group["momentum"])), int(str(group["ns_steps"]))
    return muon(theta, g, buffer, rate * stretch, beta, decay, bool(group["nesterov"]), rounds)[0]


def _rmsprop_update(theta: Tensor, g: Tensor, group: OptimizerState, state: OptimizerState) -> Tensor:
    if group["weight_decay"] or group["momentum"] or group["centered"]:
        raise TapeError("there is no equation for RMSprop with weight decay, momentum or a mean that is subtracted")
    rate, decay, eps = (float(str(group[name])) for name in ("lr", "alpha", "eps"))
    return rmsprop(theta, g, _state(state, "square_avg", g), rate, decay, eps)[0]


_UPDATES = {Adam: _adam_update, SGD: _sgd_update, Muon: _muon_update, RMSprop: _rmsprop_update}


def _state(state: OptimizerState, role: str, like: Tensor) -> Tensor:
    """A tensor of the optimizer's state, or the zeros it starts from."""
    value = state.get(role)
    return value if isinstance(value, Tensor) else torch.zeros_like(like)
