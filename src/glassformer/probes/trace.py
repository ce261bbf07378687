"""A trace: one run of a model, each step with its equation, its values, its cost and, on request, its gradients."""

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor, nn

from glassformer.equation import Cost, Equation, Symbol
from glassformer.errors import TapeError
from glassformer.probes.agreement import Agreement, difference_between
from glassformer.probes.cells import Cell, explain, full_index
from glassformer.probes.loss_targets import LossTarget, read_loss_target
from glassformer.probes.memory import require_room, sketch, value_bytes
from glassformer.probes.names import Names
from glassformer.probes.selection import Selection, axis_words
from glassformer.recording import Tape
from glassformer.steps import Gradients, Step


@dataclass(frozen=True)
class BoundSymbol:
    """A letter of an equation with what it stood for: the number itself, where it came from, its gradient."""

    symbol: Symbol
    value: object = field(repr=False)
    source: str
    gradient: Tensor | None = field(repr=False)


@dataclass(frozen=True, eq=False)
class TraceStep:
    """One step of a trace: where it stands, what it computed, from what, at what cost, with what gradient."""

    trace: "Trace" = field(repr=False)
    step: Step = field(repr=False)
    name: str
    depth: int = 0

    @property
    def path(self) -> str:
        """Where it stands on the tape."""
        return self.step.path

    @property
    def equation(self) -> Equation[..., object]:
        """What was computed, with its LaTeX, its meaning and its rule."""
        return self.step.equation

    @property
    def output(self) -> object:
        """All that came out first, whatever is selected."""
        return self.step.outputs[0]

    @property
    def value(self) -> Tensor:
        """What came out, as far as it is selected."""
        return self._selected(self.step.output.detach())

    @property
    def gradient(self) -> Tensor | None:
        """The loss's gradient with respect to what came out, if the trace went backward and it counts."""
        full = self.trace.gradient_of(self.output)
        return None if full is None else self._selected(full)

    @cached_property
    def starts(self) -> dict[int, int]:
        """Which place is selected on each axis that is narrowed to one."""
        return self.trace.selection.starts(self.step, self.trace.names)

    def _selected(self, whole: Tensor) -> Tensor:
        for axis, place in self.starts.items():
            whole = whole.narrow(axis, place, 1)
        return whole

    @property
    def axes(self) -> tuple[str, ...]:
        """A word for each axis of the value."""
        return axis_words(self.step) if isinstance(self.output, Tensor) else ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The whole shape of what came out, whatever is selected."""
        return tuple(self.output.shape) if isinstance(self.output, Tensor) else ()

    @property
    def value_shape(self) -> tuple[int, ...]:
        """The shape of the value, as far as it is selected."""
        return tuple(1 if axis in self.starts else size for axis, size in enumerate(self.shape))

    @cached_property
    def cost(self) -> Cost:
        """Operations and bytes, from the shapes."""
        return self.equation.cost(**self.step.inputs)

    @property
    def symbols(self) -> tuple[BoundSymbol, ...]:
        """Every letter of the equation with what it stood for."""
        results = dict(zip((result.name for result in self.equation.results), self.step.outputs, strict=False))
        values = self.step.inputs | results
        return tuple(
            BoundSymbol(s, values[s.name], self.trace.source_of(values[s.name]), self.trace.gradient_of(values[s.name]))
            for s in self.equation.symbols
        )


@dataclass(frozen=True, eq=False)
class Trace:
    """A run with its steps by name; narrow it with `select`, ask a number with `cell`, look at it with the views."""

    _draw: ClassVar[Callable[["Trace"], str] | None] = None

    model: nn.Module = field(repr=False)
    tape: Tape = field(repr=False)
    names: Names = field(repr=False)
    inputs: Mapping[str, object] = field(repr=False)
    output: object = field(repr=False)
    selection: Selection = field(default_factory=Selection)
    loss: Tensor | None = None
    gradients: Gradients | None = field(default=None, repr=False)
    difference: Agreement | None = None
    tokens: Mapping[str, Sequence[str]] = field(default_factory=dict, repr=False)

    @cached_property
    def steps(self) -> list[TraceStep]:
        """The steps selected that kept their values, in the order of the run, parts behind their whole."""
        kept = [step for step, _ in self._every_step if step.kept]
        wanted = set(self.selection.steps(kept, self.names))
        return [
            TraceStep(self, step, self.names[step.path], depth) for step, depth in self._every_step if step in wanted
        ]

    def __getitem__(self, name: str) -> TraceStep:
        """The step that a name means: its own, its path, or a word for it, such as `layers.0.attention.queries`."""
        step = self._by_path[self.names.path(name)]
        if not step.kept:
            raise TapeError(f"the values of {name} were not kept: trace again with it selected")
        return TraceStep(self, step, self.names[step.path])

    def select(
        self, layer: int | None = None, head: int | None = None, token: int | None = None, equation: str = "*"
    ) -> "Trace":
        """The same run with another selection."""
        selection = Selection(layer=layer, head=head, token=token, equation=equation)
        selection.steps(
            (step for step, _ in self._every_step if step.kept), self.names
        )  # raises where there is nothing
        return replace(self, selection=selection)

    def labelled(self, **tokens: Sequence[str]) -> "Trace":
        """The same trace with the words of its inputs, such as `ids=["I", "love", "AI"]`, for the views."""
        return replace(self, tokens=tokens)

    def cell(self, name: str, *index: int) -> str:
        """The arithmetic of one number, written out: `trace.cell("layers.0.attention.scores", head, i, j)`."""
        return self.explain(name, *index).text

    def explain(self, name: str, *index: int, depth: int = 0, width: int = 3) -> Cell:
        """One number and, `depth` steps back, the numbers that count most in it, `width` at each step."""
        shown = self[name]
        place = full_index(shown.name, shown.step.output, index)
        return explain(shown.name, shown.step, place, self.origin, depth, width)

    def origin(self, tensor: Tensor) -> tuple[str, Step | None]:
        """What a tensor is called, and the step that made it, if one did."""
        step = self._makers.get(id(tensor))
        return self.source_of(tensor), step

    def source_of(self, value: object) -> str:
        """The name of the step, parameter or input that a value is, or nothing."""
        step = self._makers.get(id(value))
        return self._given.get(id(value), "") if step is None else self.names[step.path]

    def gradient_of(self, value: object) -> Tensor | None:
        """The loss's gradient with respect to any tensor of the run, or None."""
        known = self.gradients is not None and isinstance(value, Tensor) and value in self.gradients
        return self.gradients[value] if known else None  # pyright: ignore[reportOptionalSubscript, reportArgumentType]

    @classmethod
    def shown_by(cls, draw: Callable[["Trace"], str]) -> None:
        """Let a view say how a notebook shows a trace; views stand above, and cannot be called from here."""
        cls._draw = draw

    def _repr_html_(self) -> str | None:
        return None if Trace._draw is None else Trace._draw(self)

    @cached_property
    def _every_step(self) -> list[tuple[Step, int]]:
        return [pair for step in self.tape.steps for pair in _with_depth(step, 0)]

    @cached_property
    def _by_path(self) -> dict[str, Step]:
        return {step.path: step for step, _ in self._every_step}

    @cached_property
    def _makers(self) -> dict[int, Step]:
        """The outermost step that made each tensor, as its first result if there is one."""
        inward = [step for step, _ in reversed(self._every_step) if step.kept]
        return {id(t): s for s in inward for t in s.output_tensors} | {id(s.outputs[0]): s for s in inward}

    @cached_property
    def _given(self) -> dict[int, str]:
        weights = {id(value): self.names.readable(name) for name, value in self.model.named_parameters()}
        return weights | {id(value): name for name, value in self.inputs.items()}


def trace(
    model: nn.Module,
    inputs: Tensor | Mapping[str, object],
    backward: str | LossTarget | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
    token: int | None = None,
    equation: str = "*",
    limit: int | None = None,
) -> Trace:
    """Run a model once as it is and once under a tape, and keep every step selected.

    `backward` names the loss to go back from: `next`, `token:ID`, `class:N`, `pair`, or a function of what the model
    says and its inputs; made of equations it is shown too. `limit` is how many bytes to keep at most, what is free if
    left out.
    """
    written = dict(model.named_children()).get("_orig_mod", model)  # what torch.compile was given
    given = _by_name(written, inputs)
    selection = Selection(layer=layer, head=head, token=token, equation=equation)
    outline = _outline(written, given, selection, backward is not None, limit)
    device = next(written.parameters()).device
    with torch.no_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []):
        fast = model(**_untouched(given))
    with torch.no_grad(), Tape(None if outline is None else outline[1].__contains__) as tape:
        output = written(**_untouched(given))
        loss = None if backward is None else _loss(backward, output, given)
    gradients = None if loss is None else _gradients(written, tape, backward, given, output, loss)
    names = Names(written, tape) if outline is None else outline[0]
    found = Trace(
        written, tape, names, given, output, selection, loss, gradients, difference_between("output", "", fast, output)
    )
    return found.select(**vars(selection))  # what is not there is said here


def _outline(
    model: nn.Module, inputs: Mapping[str, object], selection: Selection, backward: bool, limit: int | None
) -> tuple[Names, set[str]] | None:
    """The names of all steps and the paths of those to keep, found before anything runs; None to keep them all."""
    if not all(value is None or isinstance(value, Tensor) for value in inputs.values()):
        return None  # with a cache there is one new token, and nothing to save
    tape = sketch(model, inputs)
    names = Names(model, tape)
    every = [step for top in tape.steps for step in top.walk()]
    chosen = every if backward else selection.steps(every, names)  # the loss may be selected, and is not here
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    needed = 2 * value_bytes(every) + weights if backward else value_bytes(chosen)
    require_room(needed, next(model.parameters()).device, limit)
    return None if backward or len(chosen) == len(every) else (names, {step.path for step in chosen})


def _untouched(inputs: Mapping[str, object]) -> dict[str, object]:
    """The inputs with a copy of what a run would change: its cache."""
    return {k: v if isinstance(v, Tensor) else copy.deepcopy(v) for k, v in inputs.items()}


def _by_name(model: nn.Module, inputs: Tensor | Mapping[str, object]) -> dict[str, object]:
    if not isinstance(inputs, Tensor):
        return dict(inputs)
    return {next(iter(inspect.signature(model.forward).parameters)): inputs}


def _loss(backward: str | LossTarget, output: object, inputs: Mapping[str, object]) -> Tensor:
    if not isinstance(output, Tensor):
        raise TapeError(f"the model gives a {type(output).__name__}: go backward from a function of it")
    loss = (read_loss_target(backward) if isinstance(backward, str) else backward)(output, inputs)
    if loss.numel() != 1:
        raise TapeError(f"the loss has shape {list(loss.shape)}, wanted a single number")
    return loss


def _gradients(
    model: nn.Module,
    tape: Tape,
    backward: str | LossTarget | None,
    inputs: Mapping[str, object],
    output: object,
    loss: Tensor,
) -> Gradients:
    """Gradients by the rules; of a loss that is made of plain torch operations, autograd takes the first step."""
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
        said = output.detach().clone().requires_grad_()
        again = backward(said, inputs)
        if not again.requires_grad:
            raise TapeError("the loss does not depend on what the model says")
        learnt = [weight for weight in weights if weight.requires_grad]
        seed, *direct = torch.autograd.grad(again, [said, *learnt], allow_unused=True)
    found = tape.reverse(torch.zeros_like(output) if seed is None else seed, of=output, deep=True)
    found.require([*weights, *made])
    for weight, gradient in zip(learnt, direct, strict=True):
        if gradient is not None:  # a penalty on the weights themselves
            found.add(weight, gradient)
    return found


def _with_depth(step: Step, depth: int) -> Iterator[tuple[Step, int]]:
    yield step, depth
    for child in step.children:
        yield from _with_depth(child, depth + 1)
