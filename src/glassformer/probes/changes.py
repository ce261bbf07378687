"""A run with changes: what is downstream of them is computed anew, and every step can be looked at."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn

from glassformer.equation import AnyEquation, reference_mode
from glassformer.equations.interventions import intervene
from glassformer.errors import TapeError
from glassformer.probes.edits import Edit, RunChange, combined, edits_of
from glassformer.probes.inputs import Inputs, ModelInputs, TextModel, read_inputs
from glassformer.probes.loss_targets import LossTarget
from glassformer.probes.names import Names
from glassformer.probes.trace import (
    Trace,
    gradients_of,
    loss_of,
    require_memory,
    sketch,
    trace,
    untouched,
    value_bytes,
)
from glassformer.recording import Tape, substitute
from glassformer.steps import Step

ReadText: TypeAlias = Callable[[str, str | None], ModelInputs]


def apply_changes(
    model: nn.Module | TextModel,
    inputs: Inputs | ModelInputs,
    changes: Sequence[RunChange],
    backward: str | LossTarget | None = None,
    read: ReadText | None = None,
) -> Trace:
    """Trace a model whose intermediates are changed as it runs.

    Behind each step whose result is changed stands an `intervene` step, which takes over its name; the step as it was
    computed is called `NAME.before`. So every number of the run is still the result of its arithmetic, and
    gradients are those of the changed run: none flows back through a number that was replaced. `read` gives the inputs
    of another text, where that is not what the model reads by itself.
    """
    run = inputs if isinstance(inputs, ModelInputs) else read_inputs(model, inputs)
    if not changes:
        return trace(run.model, run.values, backward).labeled(**run.tokens)
    outline = _outline(run)
    weights = sum(p.numel() * p.element_size() for p in run.model.parameters())
    kept = value_bytes(step for top in outline.tape.steps for step in top.walk())
    require_memory(run.model, kept if backward is None else 2 * kept + weights)
    tape = ChangedTape(_edits(model, outline, changes, read))
    with torch.no_grad(), tape:
        output = run.model(**untouched(run.values))
        loss = None if backward is None else loss_of(backward, output, run.values)
    gradients = None if loss is None else gradients_of(run.model, tape, backward, run.values, output, loss)
    names = tape.names(run.model)
    return Trace(run.model, tape, names, run.values, output, loss=loss, gradients=gradients, tokens=run.tokens)


def _outline(run: ModelInputs) -> Trace:
    """The steps of a run with shapes and no values."""
    tape = sketch(run.model, run.values)
    return Trace(run.model, tape, Names(run.model, tape), run.values, None)


def _edits(
    model: nn.Module | TextModel, outline: Trace, changes: Sequence[RunChange], read: ReadText | None
) -> dict[str, Edit]:
    def donor(text: str, second: str | None) -> Trace:
        if read is not None:
            other = read(text, second)
        elif isinstance(model, TextModel):
            other = model.inputs(text, second)
        else:
            raise TapeError(f"{type(model).__name__} is a bare model and reads no text: use what gf.load returns")
        return trace(other.model, other.values)

    found: dict[str, list[Edit]] = {}
    for change in changes:
        for path, edit in edits_of(outline, change, donor):
            found.setdefault(path, []).append(edit)
    return {path: combined(several) for path, several in found.items()}


class ChangedTape(Tape):
    """A tape that replaces values while it records, each by an `intervene` step behind the step that made them."""

    def __init__(self, edits: Mapping[str, Edit]) -> None:
        super().__init__()
        self._edits = edits
        self._inserted: list[Step] = []

    def record(self, equation: AnyEquation, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Record a step, and an intervention where its result is to be changed."""
        result = super().record(equation, args, kwargs)
        recorded = self.siblings
        step = recorded[-1]
        if step.path not in self._edits:
            return result
        with reference_mode():  # so that what is computed here is not taken for a part of the run
            where, new = self._edits[step.path](step.output)
        changed = super().record(intervene, (step.output, where, new), {})  # pyright: ignore[reportArgumentType]
        recorded[-1].changes = step
        self._inserted.append(recorded[-1])
        return (changed, *step.outputs[1:]) if isinstance(result, tuple) else changed

    def names(self, model: nn.Module) -> Names:
        """The names that the steps have without the changes; a changed value has the name of what it replaces."""
        before = Tape()
        before.calls = self.calls
        old = {id(step.output): step.changes.output for step in self._inserted if step.changes is not None}
        before.steps = [_as_computed(step, old) for step in self.steps if step.changes is None]
        names = Names(model, before)
        for step in self._inserted:
            if step.changes is not None:
                names.insert(step.path, after=step.changes.path)
        return names


def _as_computed(step: Step, old: Mapping[int, Tensor]) -> Step:
    """A step as if nothing had been inserted: it reads what was computed."""
    inputs = {name: substitute(value, old) for name, value in step.inputs.items()}
    outputs = tuple(substitute(value, old) for value in step.outputs)
    children = [_as_computed(child, old) for child in step.children if child.changes is None]
    return Step(step.path, step.equation, inputs, outputs, children, step.versions, step.module)
