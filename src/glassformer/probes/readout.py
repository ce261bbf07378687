"""Readouts of a run, layer by layer: attention maps, the residual stream and its norms, the logit lens."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import ClassVar

import torch
from torch import Tensor, nn

from glassformer.equations.attention import weighted_sum
from glassformer.equations.regularization import dropout
from glassformer.equations.softmax import softmax
from glassformer.errors import TapeError
from glassformer.probes.inputs import Inputs, TextModel, read_inputs
from glassformer.probes.trace import Trace
from glassformer.probes.trace import trace as run_trace
from glassformer.recording import Tape
from glassformer.steps import Step

NAMED = 3  # modules that a `repr` names


class AttentionMaps(dict[str, Tensor]):
    """Attention weights [batch, heads, queries, keys] by module; a notebook draws them.

    `tokens` are the tokens of each input as text, where they are known.
    """

    _repr_html_: ClassVar[Callable[["AttentionMaps"], str]]  # how a notebook shows them; `views.attention` sets it

    def __init__(self, weights: Mapping[str, Tensor], tokens: Mapping[str, Sequence[str]] | None = None) -> None:
        super().__init__(weights)
        self.tokens: Mapping[str, Sequence[str]] = tokens or {}

    def __repr__(self) -> str:
        some = [f"{name} {list(weights.shape)}" for name, weights in list(self.items())[:NAMED]]
        more = f", and {len(self) - NAMED} more" if len(self) > NAMED else ""
        return f"<AttentionMaps: {', '.join(some) or 'none'}{more}>"


def attention_maps(model: nn.Module | TextModel, inputs: Inputs) -> AttentionMaps:
    """Attention weights [batch, heads, queries, keys] by module, such as `decoder.blocks.0.cross_attention`.

    A model from `gf.load` takes a text or token ids; a bare model takes tensors by name.
    """
    run = read_inputs(model, inputs)
    with torch.no_grad(), Tape() as tape:
        run.model(**run.values)
    found = attention_steps(tape)
    maps = {top.path.removesuffix(f".{top.equation.name}"): weights.output for top, weights in found.items()}
    return AttentionMaps(maps, run.tokens)


def attention_steps(tape: Tape) -> dict[Step, Step]:
    """Each outermost step of a tape that attends, with the step inside or before it that made the weights."""
    every = [(top, step) for top in tape.steps for step in top.walk() if step.kept]
    made = {id(step.outputs[0]): step for _, step in every if step.equation in (softmax, dropout)}
    found: dict[Step, Step] = {}
    for top, step in every:
        weights = made.get(id(step.inputs["a"])) if step.equation is weighted_sum else None
        if weights is not None and weights.equation is dropout:  # in training some weights are dropped afterwards
            weights = made.get(id(weights.inputs["x"]))
        if weights is not None:
            found[top] = weights
    return found


def residual_stream(trace: Trace, stack: str | None = None) -> list[Tensor]:
    """Hidden states before the first layer and after each; of the last stack that ran, or of a named one."""
    if not all(step.kept for step in trace.tape.steps):
        raise TapeError("the tape kept only some values: record the whole run, and narrow a trace with select()")
    layers: dict[str, dict[int, list[Step]]] = {}
    for step in trace.tape.steps:
        found = re.match(r"(?:(.*)\.)?layers\.(\d+)\.", trace.names[step.path])
        if found:
            layers.setdefault(found[1] or "", {}).setdefault(int(found[2]), []).append(step)
    chosen = list(layers)[-1:] if stack is None else [name for name in layers if name == stack]
    if not chosen:
        has = f"the model has {', '.join(layers)}" if layers else "the model has none"
        raise TapeError(f"there is no stack of layers{'' if stack is None else f' called {stack!r}'}; {has}")
    runs = [steps for _, steps in sorted(layers[chosen[0]].items())]
    for module, name in trace.names.modules.items():
        if re.fullmatch(rf"(?:{re.escape(chosen[0])}\.)?layers\.\d+", name) and trace.tape.calls[module] > 1:
            raise TapeError(f"{name} runs {trace.tape.calls[module]} times, once for each token: there is no stream")
    stream = [runs[0][0].input_tensors[0], *(steps[-1].output for steps in runs)]
    for before, steps in zip(stream[1:], runs[1:], strict=False):
        if not any(tensor is before for step in steps for tensor in step.input_tensors):
            raise TapeError(f"{trace.names[steps[0].path]} does not read the layer before it: there is no stream")
    return stream


def stream_norms(trace: Trace, stack: str | None = None) -> Tensor:
    """The mean norm of a hidden state at every depth, the input of the first layer first."""
    return torch.stack([hidden.detach().norm(dim=-1).mean() for hidden in residual_stream(trace, stack)])


def gradient_norms(trace: Trace, stack: str | None = None) -> Tensor:
    """The norm of the loss's gradient with respect to all hidden states, at every depth."""
    trace.require_gradients()
    found = [(hidden, trace.gradient_of(hidden)) for hidden in residual_stream(trace, stack)]
    return torch.stack([hidden.new_zeros(()) if g is None else g.norm() for hidden, g in found])


def weight_gradient_norms(trace: Trace) -> dict[str, Tensor]:
    """The norm of the loss's gradient with respect to every parameter, by name."""
    found = {trace.source_of(p): trace.gradient_of(p) for p in trace.model.parameters()}
    return {name: gradient.norm() for name, gradient in found.items() if gradient is not None}


def logit_lens(trace: Trace | nn.Module | TextModel, inputs: Inputs | None = None) -> Tensor:
    """The output [depth, ...] if the hidden states of each depth were the last ones (nostalgebraist, 2020).

    It takes a trace, or a model with what to trace it on. The first is of the input of the first layer, the last is
    the model's output. Of an encoder-decoder the layers are the decoder's. Everything after the layers is replayed
    from the tape.
    """
    if not isinstance(trace, Trace):
        if inputs is None:
            raise TapeError(f"logit_lens got {type(trace).__name__} alone, wanted a trace, or a model and its inputs")
        trace = run_trace(trace, inputs)
    return torch.stack(list(logits_by_depth(trace)))


def logits_by_depth(trace: Trace, positions: slice | None = None) -> Iterator[Tensor]:
    """The outputs of the logit lens one after another, of all positions or, of a model that gives each its own, some.

    So no more than one of them need be in memory.
    """
    stream, of = residual_stream(trace), trace.output if isinstance(trace.output, Tensor) else None
    tape, made = copy(trace.tape), [any(t is of for t in step.output_tensors) for step in trace.tape.steps]
    tape.steps = tape.steps[: made.index(True) + 1 if True in made else None]  # without a loss of all positions
    for hidden in stream:
        changed = hidden if positions is None else hidden[:, positions]
        with torch.no_grad():
            output = tape.replay(changes=[(stream[-1], changed)], of=of)
        if isinstance(output, Tensor):
            yield output
