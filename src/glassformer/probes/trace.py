"""A trace: one run of a model, each step with its equation, its values, its cost and, on request, its gradients."""

import copy
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import ClassVar

import torch
from torch import Tensor, nn

from glassformer.equation import Cost, Equation, Symbol
from glassformer.errors import TapeError, require_type
from glassformer.probes.agreement import Agreement, difference_between
from glassformer.probes.cells import Cell, explain, full_index
from glassformer.probes.inputs import Inputs, TextModel, read_inputs
from glassformer.probes.loss_targets import LossTarget, read_loss_target
from glassformer.probes.names import Names, Selection, axis_names
from glassformer.recording import Tape
from glassformer.steps import Gradients, Step

_MEMINFO = Path("/proc/meminfo")
_GIGA = 1e9


@dataclass(frozen=True)
class BoundSymbol:
    """A symbol of an equation with its value in this step, the name of what made the value, and its gradient."""

    symbol: Symbol
    value: object = field(repr=False)
    source: str
    gradient: Tensor | None = field(repr=False)


@dataclass(frozen=True, eq=False, repr=False)
class TraceStep:
    """One step of a trace: its name, equation, inputs, value, cost and gradient."""

    trace: "Trace"
    step: Step
    name: str
    depth: int = 0

    def __repr__(self) -> str:
        return f"<TraceStep {self.name}: {self.equation.name}, {list(self.value_shape)}>"

    @property
    def path(self) -> str:
        """Its path on the tape."""
        return self.step.path

    @property
    def equation(self) -> Equation[..., object]:
        """Its equation, with LaTeX, meaning and gradient rule."""
        return self.step.equation

    @property
    def output(self) -> object:
        """Its whole first output, regardless of the selection."""
        return self.step.outputs[0]

    @property
    def value(self) -> Tensor:
        """The selected part of its output."""
        return self._selected(self.step.output.detach())

    @property
    def gradient(self) -> Tensor | None:
        """The loss's gradient with respect to the value, if the trace went backward and the loss depends on it."""
        full = self.trace.gradient_of(self.output)
        return None if full is None else self._selected(full)

    @cached_property
    def starts(self) -> dict[int, int]:
        """The index selected on each axis that is narrowed to one."""
        return self.trace.selection.starts(self.step, self.trace.names)

    def _selected(self, whole: Tensor) -> Tensor:
        for axis, index in self.starts.items():
            whole = whole.narrow(axis, index, 1)
        return whole

    @property
    def axes(self) -> tuple[str, ...]:
        """A name for each axis of the value."""
        return axis_names(self.step) if isinstance(self.output, Tensor) else ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole output, regardless of the selection."""
        return tuple(self.output.shape) if isinstance(self.output, Tensor) else ()

    @property
    def value_shape(self) -> tuple[int, ...]:
        """The shape of the selected part."""
        return tuple(1 if axis in self.starts else size for axis, size in enumerate(self.shape))

    @cached_property
    def cost(self) -> Cost:
        """Operations and bytes, from the shapes."""
        return self.equation.cost(**self.step.inputs)

    @property
    def symbols(self) -> tuple[BoundSymbol, ...]:
        """Every symbol of the equation with its value."""
        results = dict(zip((result.name for result in self.equation.results), self.step.outputs, strict=False))
        values = self.step.inputs | results
        return tuple(
            BoundSymbol(s, values[s.name], self.trace.source_of(values[s.name]), self.trace.gradient_of(values[s.name]))
            for s in self.equation.symbols
        )


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """A run with its steps by name; narrow it with `select`, explain a number with `cell`, show it with the views."""

    _repr_html_: ClassVar[Callable[["Trace"], str]]  # how a notebook shows a trace; `views.html` sets it

    model: nn.Module
    tape: Tape
    names: Names
    inputs: Mapping[str, object]
    output: object
    selection: Selection = field(default_factory=Selection)
    loss: Tensor | None = None
    gradients: Gradients | None = None
    difference: Agreement | None = None
    tokens: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __repr__(self) -> str:
        loss = "" if self.loss is None else f", loss {float(self.loss):.4g}"
        return f"<Trace {type(self.model).__name__}: {len(self.steps)} steps{loss}>"

    @cached_property
    def steps(self) -> list[TraceStep]:
        """The steps selected that kept their values, in the order of the run, parts behind their whole."""
        kept = [step for step, _ in self._every_step if step.kept]
        wanted = set(self.selection.steps(kept, self.names))
        chosen = [(step, depth) for step, depth in self._every_step if step in wanted]
        return [TraceStep(self, step, self.names[step.path], depth) for step, depth in chosen]

    def __getitem__(self, name: str) -> TraceStep:
        """The step by its name, its path, or a declared name, such as `layers.0.attention.queries`."""
        step = self._by_path[self.names.path(name)]
        if not step.kept:
            raise TapeError(f"the values of {name} were not kept: trace again with it selected")
        return TraceStep(self, step, self.names[step.path])

    def select(
        self, layer: int | None = None, head: int | None = None, token: int | None = None, equation: str = "*"
    ) -> "Trace":
        """The same run with another selection."""
        selection = Selection(layer=layer, head=head, token=token, equation=equation)
        selection.steps([step for step, _ in self._every_step if step.kept], self.names)  # raises if there are none
        return replace(self, selection=selection)

    def labeled(self, **tokens: Sequence[str]) -> "Trace":
        """The same trace with the tokens of its inputs as text, such as `ids=["I", "love", "AI"]`, for the views."""
        return replace(self, tokens=tokens)

    def cell(self, name: str, *index: int) -> str:
        """The arithmetic of one number, written out: `trace.cell("layers.0.attention.scores", head, i, j)`."""
        return self.explain(name, *index).text

    def explain(self, name: str, *index: int, depth: int = 0, width: int = 3, weights: bool = False) -> Cell:
        """One number and, `depth` steps back, its largest contributions, `width` at each step.

        With `weights`, as many of the largest contributions of parameters and inputs beside them.
        """
        shown = self[name]
        at = full_index(shown.name, shown.step.output, index)
        return explain(shown.name, shown.step, at, self.origin, depth, width, weights)

    def origin(self, tensor: Tensor) -> tuple[str, Step | None]:
        """The name of a tensor, and the step that made it, if one did."""
        return self.source_of(tensor), self._makers.get(id(tensor))

    def source_of(self, value: object) -> str:
        """The name of the step that made a value, or of the parameter or input that it is; empty if unknown."""
        step = self._makers.get(id(value))
        return self._given.get(id(value), "") if step is None else self.names[step.path]

    def gradient_of(self, value: object) -> Tensor | None:
        """The loss's gradient with respect to any tensor of the run, or None."""
        if self.gradients is None or not isinstance(value, Tensor) or value not in self.gradients:
            return None
        return self.gradients[value]

    def require_gradients(self) -> None:
        """Raise if the trace did not go backward."""
        if self.gradients is None:
            raise TapeError("the trace did not go backward: trace with backward= to have gradients")

    @cached_property
    def _every_step(self) -> list[tuple[Step, int]]:
        return [pair for step in self.tape.steps for pair in _with_depth(step, 0)]

    @cached_property
    def _by_path(self) -> dict[str, Step]:
        return {step.path: step for step, _ in self._every_step}

    @cached_property
    def _makers(self) -> dict[int, Step]:
        """The outermost step that made each tensor, preferring one whose first output it is."""
        inward = [step for step, _ in reversed(self._every_step) if step.kept]
        return {id(t): s for s in inward for t in s.output_tensors} | {id(s.outputs[0]): s for s in inward}

    @cached_property
    def _given(self) -> dict[int, str]:
        weights = {id(value): self.names.readable(name) for name, value in self.model.named_parameters()}
        return weights | {id(value): name for name, value in self.inputs.items()}


def trace(
    model: nn.Module | TextModel,
    inputs: Inputs,
    backward: str | LossTarget | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
    token: int | None = None,
    equation: str = "*",
    limit: int | None = None,
) -> Trace:
    """Run a model once as it is and once under a tape, and keep the values of every selected step.

    A model from `gf.load` also takes a text or token ids; a bare model takes tensors. `backward` is the loss to go
    backward from: `next`, `token:ID`, `class:N`, `pair`, or a function of the model's output and inputs, whose
    equations are traced too. `limit` is the most bytes to keep, by default the free memory.
    """
    for name, index in (("layer", layer), ("head", head), ("token", token), ("limit", limit)):
        require_type(TapeError, name, index, (int, NoneType), "a whole number")
    require_type(TapeError, "equation", equation, str, "the name of an equation")
    if not callable(backward):
        require_type(TapeError, "backward", backward, (str, NoneType), "the name of a loss, or a function")
    run = read_inputs(model, inputs)
    given, eager = run.values, dict(run.model.named_children()).get("_orig_mod", run.model)  # inside torch.compile
    selection = Selection(layer=layer, head=head, token=token, equation=equation)
    outline = _outline(eager, given, selection, backward is not None, limit)
    device = next(eager.parameters()).device
    with torch.no_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []):
        fast = run.model(**untouched(given))
    with torch.no_grad(), Tape(None if outline is None else outline[1].__contains__) as tape:
        output = eager(**untouched(given))
        loss = None if backward is None else loss_of(backward, output, given)
    gradients = None if loss is None else gradients_of(eager, tape, backward, given, output, loss)
    names = Names(eager, tape) if outline is None else outline[0]
    difference = difference_between("output", "", fast, output)
    found = Trace(eager, tape, names, given, output, selection, loss, gradients, difference, run.tokens)
    return found.select(**vars(selection))  # raises if nothing is selected


def _outline(
    model: nn.Module, inputs: Mapping[str, object], selection: Selection, backward: bool, limit: int | None
) -> tuple[Names, set[str]] | None:
    """The names of all steps and the paths of those to keep, known before anything runs; None to keep them all."""
    if not all(value is None or isinstance(value, Tensor) for value in inputs.values()):
        return None  # with a cache there is one new token, and nothing to save
    tape = sketch(model, inputs)
    names = Names(model, tape)
    every = [step for top in tape.steps for step in top.walk()]
    chosen = every if backward else selection.steps(every, names)  # a step of the loss may be selected, unknown here
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    needed = 2 * value_bytes(every) + weights if backward else value_bytes(chosen)
    require_memory(model, needed, limit)
    return None if backward or len(chosen) == len(every) else (names, {step.path for step in chosen})


def require_memory(model: nn.Module, needed: int, limit: int | None = None) -> None:
    """Raise if a trace would keep more bytes than a limit, by default the free memory of the model's device."""
    free = free_memory(next(model.parameters()).device) if limit is None else limit
    if free is not None and needed > free:
        raise TapeError(
            f"this trace would keep {needed / _GIGA:.2f} GB and there is room for {free / _GIGA:.2f} GB; "
            "narrow it to a layer or an equation, shorten the input, or leave the backward pass out"
        )


def sketch(model: nn.Module, inputs: Mapping[str, object]) -> Tape:
    """The tape of a run on the meta device: shapes only, nothing is computed."""
    weights = {id(value): value.to("meta") for value in (*model.parameters(), *model.buffers())}
    shapes = {name: value.to("meta") if isinstance(value, Tensor) else value for name, value in inputs.items()}
    outline = copy.deepcopy(model, weights)  # the model itself may be running in another thread
    with torch.no_grad(), Tape() as tape:
        outline(**shapes)
    return tape


def value_bytes(steps: Iterable[Step]) -> int:
    """Bytes of the outputs of these steps; views of one tensor are counted once."""
    storages = (tensor.untyped_storage() for step in steps for tensor in step.output_tensors)
    return sum({storage._cdata: storage.nbytes() for storage in storages}.values())


def free_memory(device: torch.device) -> int | None:
    """Free bytes on a device, or None where they are unknown."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if _MEMINFO.exists():
        lines = (line.split() for line in _MEMINFO.read_text(encoding="ascii").splitlines())
        return next(int(words[1]) * 1024 for words in lines if words[0] == "MemAvailable:")
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 if hasattr(os, "sysconf") else None


def untouched(inputs: Mapping[str, object]) -> dict[str, object]:
    """The inputs with a copy of the cache, which a run changes."""
    return {k: v if isinstance(v, Tensor) else copy.deepcopy(v) for k, v in inputs.items()}


def loss_of(backward: str | LossTarget, output: object, inputs: Mapping[str, object]) -> Tensor:
    """The loss of an output, a single number."""
    if not isinstance(output, Tensor):
        raise TapeError(f"the model gives a {type(output).__name__}: go backward from a function of it")
    loss = (read_loss_target(backward) if isinstance(backward, str) else backward)(output, inputs)
    if loss.numel() != 1:
        raise TapeError(f"the loss has shape {list(loss.shape)}, wanted a single number")
    return loss


def gradients_of(
    model: nn.Module,
    tape: Tape,
    backward: str | LossTarget | None,
    inputs: Mapping[str, object],
    output: object,
    loss: Tensor,
) -> Gradients:
    """Gradients by the rules; if the loss has plain torch operations, autograd differentiates the loss itself."""
    weights = list(model.parameters())
    made = [tensor for step in tape.steps for tensor in step.output_tensors]
    try:
        found = tape.reverse(of=loss, deep=True)
        found.require([*weights, *made])
        return found
    except TapeError:
        if backward is None or isinstance(backward, str) or not isinstance(output, Tensor):
            raise
    with torch.inference_mode(False), torch.enable_grad():
        leaf = output.detach().clone().requires_grad_()
        again = backward(leaf, inputs)
        if not again.requires_grad:
            raise TapeError("the loss does not depend on the model's output")
        learned = [weight for weight in weights if weight.requires_grad]
        seed, *direct = torch.autograd.grad(again, [leaf, *learned], allow_unused=True)
    found = tape.reverse(torch.zeros_like(output) if seed is None else seed, of=output, deep=True)
    found.require([*weights, *made])
    for weight, gradient in zip(learned, direct, strict=True):
        if gradient is not None:  # a penalty on the weights themselves
            found.add(weight, gradient)
    return found


def _with_depth(step: Step, depth: int) -> Iterator[tuple[Step, int]]:
    yield step, depth
    for child in step.children:
        yield from _with_depth(child, depth + 1)
