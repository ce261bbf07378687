"""The tape: record a run of equations, play it again, run it backward by the gradient rules."""

import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from glassformer.equation import MODE, AnyEquation, no_checks, reference_mode
from glassformer.errors import TapeError
from glassformer.provenance import Provenance
from glassformer.steps import Gradients, Operation, Step, not_recorded, tensors_in, version_of
from glassformer.torch_private import uncompiled

SHOWN = 50  # steps of a tape in a notebook


class Tape:
    """A straight-line record of equations; use it as `with gf.tape() as tape:`.

    `keep` says by path which steps keep their values, all of them if left out; of others only their order is known.
    """

    def __init__(self, keep: Callable[[str], bool] | None = None) -> None:
        self.steps: list[Step] = []
        self.calls: Counter[str] = Counter()  # how often each module ran, by name
        self._keep = keep
        self._open: list[Step] = []
        self._names: dict[int, list[str]] = {}
        self._modules: list[str] = []
        self._seen: Counter[str] = Counter()
        self._provenance = Provenance(lambda: MODE.dispatcher is self and not self._open)
        self._while_on = ExitStack()

    def __repr__(self) -> str:
        if not self.steps:
            return "<Tape: empty>"
        count = f"{len(self.steps)} step{'s' if len(self.steps) > 1 else ''}"
        return f"<Tape: {count}, {' to '.join(dict.fromkeys([self.steps[0].path, self.steps[-1].path]))}>"

    def _repr_markdown_(self) -> str:
        """The steps with their formulas and shapes, as a notebook shows them."""
        shown = [
            f"| {step.path} | {step.equation.name} | ${step.equation.latex.replace('|', chr(92) + 'vert ')}$ | "
            f"{', '.join(str(list(tensor.shape)) for tensor in step.output_tensors)} |"
            for step in self.steps[:SHOWN]
        ]
        more = [f"| and {len(self.steps) - SHOWN} more | | | |"] if len(self.steps) > SHOWN else []
        return "\n".join(["| step | equation | formula | output |", "| --- | --- | --- | --- |", *shown, *more])

    def __enter__(self) -> "Tape":
        outside, MODE.dispatcher = MODE.dispatcher, self
        self._while_on.callback(setattr, MODE, "dispatcher", outside)
        for hook in (
            register_module_forward_pre_hook(self._enter_module),
            register_module_forward_hook(self._leave_module, always_call=True),
        ):
            self._while_on.callback(hook.remove)
        self._while_on.enter_context(_uncompiled())
        self._while_on.enter_context(self._provenance)
        return self

    def __exit__(self, *_: object) -> None:
        self._while_on.close()

    def _enter_module(self, module: Module, _args: object) -> None:
        if MODE.dispatcher is not self:
            return
        if not self._modules:  # all names of every module, without the wrapper of `torch.compile`
            self._names = defaultdict(list)
            for name, each in module.named_modules(remove_duplicate=False):
                self._names[id(each)].append(".".join(part for part in name.split(".") if part != "_orig_mod"))
        name = self._name(module)
        self.calls[name] += 1
        self._modules.append(name)

    def _leave_module(self, _module: Module, _args: object, _result: object) -> None:
        if MODE.dispatcher is self and self._modules:
            self._modules.pop()

    def _name(self, module: Module) -> str:
        """A module's name; of a module with several, such as a block shared by layers, the one that runs now."""
        names = self._names.get(id(module), [""])
        for above in reversed(self._modules) if len(names) > 1 else ():
            inside = [name for name in names if name.startswith(f"{above}." if above else "")]
            if inside:
                return min(inside, key=lambda name: self.calls[name])  # the first of those that ran least
        return names[0]

    def record(self, equation: AnyEquation, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Run an equation's plain function and keep what went in and what came out."""
        with self._provenance.paused():
            return self._record(equation, args, kwargs)

    def _record(self, equation: AnyEquation, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        if MODE.checking:
            equation.check(*args, **kwargs)
        path, module = self._path(equation)
        kept = self._keep is None or self._keep(path)
        inputs = _freeze_generators(equation.bind(args, kwargs)) if kept else {}
        step = Step(path, equation, inputs, module=module)
        self.siblings.append(step)
        self._open.append(step)
        try:
            with no_checks():
                fresh = _apart(equation.fn(*args, **kwargs), step.input_tensors)
        finally:
            self._open.pop()
        if not kept:
            return fresh
        step.outputs = fresh if isinstance(fresh, tuple) else (fresh,)
        step.versions = tuple(version_of(tensor) for tensor in step.input_tensors)
        return fresh

    def _path(self, equation: AnyEquation) -> tuple[str, str]:
        """Where a step stands: its own path, and the module it runs in."""
        if self._open:
            above, module = self._open[-1].path, self._open[-1].module
        else:
            above = module = self._modules[-1] if self._modules else ""
        path = f"{above}.{equation.name}" if above else equation.name
        self._seen[path] += 1
        return path if self._seen[path] == 1 else f"{path}.{self._seen[path]}", module

    @property
    def siblings(self) -> list[Step]:
        """The steps recorded so far on the level that is being recorded."""
        return self._open[-1].children if self._open else self.steps

    @property
    def leaves(self) -> list[Tensor]:
        """Tensors that steps read and no step made: inputs and parameters, in order of first use."""
        made: set[int] = set()
        found: dict[int, Tensor] = {}
        for step in self.steps:
            found.update({id(t): t for t in step.input_tensors if id(t) not in made and id(t) not in found})
            made.update(id(t) for t in step.output_tensors)
        return list(found.values())

    def replay(
        self, deep: bool = False, changes: Sequence[tuple[Tensor, Tensor]] = (), of: Tensor | None = None
    ) -> object:
        """Run every step again from the leaves and give the last step's result, or the new value of another tensor.

        With `deep`, steps that have parts are replayed through their parts. `changes` replaces recorded
        tensors by new ones; then only the steps that depend on them run again.
        """
        if changes:
            self._require_whole("replays a change")
        values = {id(old): new for old, new in changes}
        result: object = None
        with reference_mode(), no_checks():
            for step in [part for top in self.steps for part in _parts(top, deep)]:
                if changes and not self._depends(step, values):
                    continue
                _unchanged(step)
                inputs = {name: substitute(value, values) for name, value in step.inputs.items()}
                result = step.equation.fn(**inputs)
                outputs = result if isinstance(result, tuple) else (result,)
                for old, new in zip(step.output_tensors, tensors_in(outputs), strict=True):
                    values.setdefault(id(old), new)  # what was changed stays changed
        if of is not None:
            return self._became(of, values, bool(changes))
        if (deep or changes) and self.steps:  # several parts may have made the last step's outputs, or none ran again
            again = [substitute(output, values) for output in self.steps[-1].outputs]
            return tuple(again) if len(again) > 1 else again[0] if again else result
        return result

    def _depends(self, step: Step, values: Mapping[int, Tensor]) -> bool:
        """Whether a step reads what has new values; raises where it does so by way of a plain torch operation."""
        for tensor in step.input_tensors:
            if between := self._provenance.between(tensor, lambda source: id(source) in values):
                raise TapeError(f"{step.path} reads a changed value through {not_recorded(between)}")
        return any(id(tensor) in values for tensor in step.input_tensors)

    def _became(self, of: Tensor, values: Mapping[int, Tensor], changed: bool) -> Tensor:
        """The new value of a tensor that was asked for."""
        if between := self._provenance.between(of, lambda source: id(source) in values):
            raise TapeError(f"the tensor asked for was made by {not_recorded(between)}")
        if id(of) in values:
            return values[id(of)]
        if changed:
            raise TapeError(f"the tensor asked for, of shape {list(of.shape)}, does not depend on what was changed")
        self._require_known(of)
        return of

    def reverse(self, seed: Tensor | None = None, of: Tensor | None = None, deep: bool = False) -> Gradients:
        """Run the tape backward through the gradient rules.

        `of` is the tensor to differentiate, by default the last step's first output; `seed` is its
        cotangent, by default one for a single number. With `deep`, steps that have parts go
        backward through their parts instead of by their own rule; both give the same gradients.
        """
        if not self.steps:
            raise TapeError("the tape is empty: call equations inside `with gf.tape() as tape:` first")
        self._require_whole("goes backward")
        of = self.steps[-1].output if of is None else of
        if seed is None:
            if of.numel() != 1:
                raise TapeError(f"the output has shape {list(of.shape)}: give reverse() a seed of that shape")
            seed = torch.ones_like(of)
        if seed.shape != of.shape:
            raise TapeError(f"the seed has shape {list(seed.shape)}, wanted {list(of.shape)}, the output's shape")
        self._require_known(of)
        found = Gradients()
        with reference_mode(), no_checks(), torch.no_grad():
            found.add(of, seed)
            for step in reversed(self.steps):
                _pull_back(step, found, deep)
        found.lost = self._lost(found)
        return found

    def _require_whole(self, what: str) -> None:
        if self._keep is not None and not all(step.kept for top in self.steps for step in top.walk()):
            remedy = "record the whole run, and narrow a trace with select()"
            raise TapeError(f"the tape kept only some values, and {what} only when it kept all of them: {remedy}")

    def _require_known(self, of: Tensor) -> None:
        steps = [step for top in self.steps for step in top.walk()]
        met = {id(tensor) for step in steps for tensor in (*step.output_tensors, *step.input_tensors)}
        if id(of) not in met and self._provenance.between(of, lambda source: id(source) in met) is None:
            raise TapeError(f"the tensor asked for, of shape {list(of.shape)}, is not on the tape")

    def _lost(self, found: Gradients) -> dict[int, tuple[Tensor, Operation]]:
        """Tensors that count in the output by way of a plain torch operation too, by id, each with the operation."""
        lost: dict[int, tuple[Tensor, Operation]] = {}

        def lose(tensor: Tensor) -> None:
            if not isinstance(tensor, Parameter):  # gradients end at a parameter, however it was computed
                lost.update({id(source): (source, way) for source, way in self._provenance.smooth_sources(tensor)})

        for tensor in found:
            lose(tensor)
        for step in reversed([step for top in self.steps for step in top.walk()] if lost else []):
            ways = [lost[id(output)][1] for output in step.output_tensors if id(output) in lost]
            for tensor in step.input_tensors if ways else ():
                if tensor.is_floating_point():
                    lost.setdefault(id(tensor), (tensor, ways[0]))
                    lose(tensor)
        return lost


@contextmanager
def _uncompiled() -> Iterator[None]:
    """Run compiled models uncompiled: compiled code has no equations to record."""
    if "torch._dynamo" not in sys.modules:  # nothing is compiled
        yield
        return
    with uncompiled(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Using `torch.compile.module.` when there are global hooks", UserWarning)
        yield


def _parts(step: Step, deep: bool) -> Iterator[Step]:
    """The outermost steps of a step that kept their values, or with `deep` the innermost, in order."""
    if step.kept and not (deep and step.children):
        yield step
        return
    for child in step.children:
        yield from _parts(child, deep)


def _pull_back(step: Step, found: Gradients, deep: bool) -> None:
    """Send the gradients of a step's outputs back to its inputs."""
    outputs = step.output_tensors
    if not any(tensor in found for tensor in outputs):
        return
    _unchanged(step)
    cotangents = [found[t] if t in found else torch.zeros_like(t) for t in outputs]
    back = None if deep and step.children else step.equation.vjp(step.inputs, outputs, cotangents)
    if back is None and step.children:
        for child in reversed(step.children):
            _pull_back(child, found, deep)
        return
    if back is None:
        if any(tensor.is_floating_point() for tensor in step.input_tensors):
            raise TapeError(f"{step.path}: {step.equation.name} has no gradient rule and no parts to go back through")
        return
    for name, gradient in back.items():
        if gradient is not None:
            for tensor, part in zip(tensors_in(step.inputs[name]), tensors_in(gradient), strict=True):
                found.add(tensor, part)


def _unchanged(step: Step) -> None:
    now = tuple(version_of(tensor) for tensor in step.input_tensors)
    if now != step.versions:
        raise TapeError(f"{step.path}: an input was changed in place after it was recorded; replay before changing it")


def substitute(value: object, values: Mapping[int, Tensor]) -> object:
    """A value, or a sequence, with some tensors in it replaced, by id; a random generator is copied."""
    if isinstance(value, Tensor):
        return values.get(id(value), value)
    if isinstance(value, (list, tuple)):
        return type(value)(substitute(item, values) for item in value)
    if isinstance(value, torch.Generator):
        return value.clone_state()
    return value


def _freeze_generators(inputs: dict[str, object]) -> dict[str, object]:
    """Copy the state of each random generator, so that a replay draws the same numbers."""
    if "generator" in inputs and inputs["generator"] is None:
        device = next((t.device for t in tensors_in(list(inputs.values()))), torch.device("cpu"))
        cuda = device.type == "cuda"
        inputs["generator"] = torch.cuda.default_generators[device.index] if cuda else torch.default_generator
    return {
        name: value.clone_state() if isinstance(value, torch.Generator) else value for name, value in inputs.items()
    }


def _apart(result: object, inputs: Sequence[Tensor]) -> object:
    """A result that is one of the inputs becomes a new tensor, so that the tape can tell them apart."""
    if isinstance(result, tuple):
        return tuple(_apart(item, inputs) for item in result)
    if isinstance(result, Tensor) and any(result is tensor for tensor in inputs):
        return result.view_as(result)
    return result
