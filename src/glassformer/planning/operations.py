"""Operations of a training step by equation: forward by each equation's own cost, backward as autograd runs it."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import torch

from glassformer.equation import no_checks
from glassformer.equations.attention import attention, dropout_attention
from glassformer.layers.model import Model
from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.example_batch import example_batch
from glassformer.planning.figures import EquationCost, Operations
from glassformer.planning.kernel_data import BACKWARD, FORWARD, Kernel, RecordedStep
from glassformer.planning.kernels import LOSS
from glassformer.planning.roofline import kernel_time
from glassformer.planning.shortened import shortened
from glassformer.recording import Tape
from glassformer.training.objective import LossModule, Objective

PRODUCTS = 3  # of an output layer in training: its logits, and the gradients of hidden states and weights


def forward_costs(model: Model, objective: Objective, batch: int, length: int) -> Mapping[str, tuple[int, int]]:
    """Calls and operations of each equation in one forward pass, loss included, from a tape on the device "meta"."""
    same, runs = shortened(model)
    with torch.device("meta"):
        inputs = example_batch(same, objective, batch, length)
    with torch.no_grad(), no_checks(), Tape() as tape:
        LossModule(same, objective).train()(inputs)
    repeats = {f"model.{run.names[1]}": run.repeats for run in runs}
    calls, flops = Counter[str](), Counter[str]()
    for step in tape.steps:
        times = next((many for name, many in repeats.items() if f"{step.module}.".startswith(f"{name}.")), 1)
        calls[step.equation.name] += times
        flops[step.equation.name] += times * step.equation.cost(**step.inputs).flops
    return {name: (calls[name], flops[name]) for name in calls}


def operations(
    forward: Mapping[str, tuple[int, int]],
    step: RecordedStep,
    kernels: Sequence[tuple[Kernel, int]],
    device: DeviceSpec,
    dtype: str,
) -> Operations:
    """Operations of a step, in total and by equation, with the seconds of each equation's kernels."""
    matmul, backward = Counter[str](), Counter[str]()
    seconds: dict[str, float] = defaultdict(float)
    drops = attention.name not in forward and dropout_attention.name in forward
    called = {attention.name: dropout_attention.name} if drops else {}  # a GPU's kernel drops weights on its way
    for call, tag, phase, times in zip(step.calls, step.tags, _phases(step), step.repeats, strict=True):
        matmul[phase] += times * call.flops
        if phase == BACKWARD:
            backward[called.get(tag.equation, tag.equation)] += times * (call.flops or call.numbers)
    for kernel, times in kernels:
        name = called.get(kernel.tag.equation, kernel.tag.equation)
        seconds[name] += times * kernel_time(kernel, device, dtype).seconds
    names = sorted({*forward, *(name for name in backward if name)}, key=lambda name: -seconds[name])
    rows = [
        EquationCost(
            name=name,
            calls=forward.get(name, (0, 0))[0],
            forward=forward.get(name, (0, 0))[1],
            backward=backward[name],
            seconds=seconds[name],
        )
        for name in names
    ]
    return Operations(
        forward=sum(flops for _, flops in forward.values()),
        backward=sum(backward.values()),
        matmul_forward=matmul[FORWARD],
        matmul_backward=matmul[BACKWARD],
        tokens=step.tokens,
        by_equation=tuple(rows),
    )


def _phases(step: RecordedStep) -> Iterator[str]:
    """The phase that each call works for: the loss computes its gradients in the forward pass.

    Of its three products the first gives the logits, the others the gradients of hidden states and weights.
    """
    products = 0
    for call, tag in zip(step.calls, step.tags, strict=True):
        own = (tag.equation, tag.phase, call.kind) == (LOSS, FORWARD, "matmul")
        yield BACKWARD if own and products % PRODUCTS else tag.phase
        products += own
