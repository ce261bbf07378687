"""The tape: record a run of equations, play it again, run it backward by the gradient rules."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils.hooks import RemovableHandle

from glassformer.errors import TapeError


@runtime_checkable
class Recordable(Protocol):
    """What the tape asks of an equation."""

    name: str

    @property
    def fn(self) -> Callable[..., object]:
        """The plain function."""
        ...

    @property
    def run(self) -> Callable[..., object]:
        """The fast form where there is one, else the plain function."""
        ...

    def bind(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Arguments by name, defaults filled in."""
        ...

    def check(self, *args: object, **kwargs: object) -> None:
        """Raise on arguments the equation is not defined for."""
        ...

    def pull_back(
        self, inputs: Mapping[str, object], outputs: Sequence[Tensor], cotangents: Sequence[Tensor]
    ) -> Mapping[str, object] | None:
        """Gradients of the inputs by the hand-derived rule, or None where there is no rule."""
        ...


@runtime_checkable
class Watcher(Protocol):
    """Whoever stands between a call and its kernel: a check at the boundary, a tape, the plain path."""

    def record(self, equation: Recordable, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Run the equation in the watcher's way."""
        ...


class Checks:
    """Check a call that comes from outside, then run it and all it calls without checking again."""

    def record(self, equation: Recordable, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Check, then run the fast form."""
        equation.check(*args, **kwargs)
        with unchecked():
            return equation.run(*args, **kwargs)


CHECKS = Checks()


class Mode(threading.local):
    """How equations run on this thread; with no watcher a call goes straight to its kernel."""

    watcher: Watcher | None = CHECKS
    checking: bool = True


MODE = Mode()


class unchecked:  # noqa: N801 - reads as a word: `with unchecked():`
    """Leave argument checks out inside, for a caller that has made its own at the boundary."""

    def __enter__(self) -> None:
        self._before = MODE.watcher, MODE.checking
        MODE.checking = False
        if MODE.watcher is CHECKS:
            MODE.watcher = None

    def __exit__(self, *_: object) -> None:
        MODE.watcher, MODE.checking = self._before


class plain:  # noqa: N801 - reads as a word: `with plain():`
    """Run plain functions inside, never fused ones, and keep nothing."""

    def __enter__(self) -> None:
        self._before, MODE.watcher = MODE.watcher, self

    def __exit__(self, *_: object) -> None:
        MODE.watcher = self._before

    def record(self, equation: Recordable, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Run the equation's plain function."""
        if MODE.checking:
            equation.check(*args, **kwargs)
        with unchecked():
            return equation.fn(*args, **kwargs)


@dataclass(eq=False)
class Step:
    """One equation as it ran: where, on what, giving what, and the steps inside it."""

    path: str
    equation: Recordable
    inputs: dict[str, object]
    outputs: tuple[object, ...] = ()
    children: list["Step"] = field(default_factory=list)
    versions: tuple[int, ...] = ()
    place: str = ""

    @property
    def kept(self) -> bool:
        """Whether the tape kept what went in and what came out."""
        return bool(self.outputs)

    @property
    def output(self) -> Tensor:
        """The first output."""
        first = self.outputs[0]
        if not isinstance(first, Tensor):
            raise TapeError(f"{self.path} gives a {type(first).__name__}, not a tensor")
        return first

    @property
    def input_tensors(self) -> list[Tensor]:
        """Every tensor the step read, sequences laid flat."""
        return _tensors(list(self.inputs.values()))

    @property
    def output_tensors(self) -> list[Tensor]:
        """Every tensor the step made."""
        return _tensors(self.outputs)

    def walk(self) -> Iterator["Step"]:
        """This step, then every step inside it, in the order they began."""
        yield self
        for child in self.children:
            yield from child.walk()


class Gradients:
    """Gradients of one reverse run, looked up by the tensor they belong to."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Tensor, Tensor]] = {}

    def __getitem__(self, tensor: Tensor) -> Tensor:
        """The gradient of the seeded output with respect to this tensor."""
        if id(tensor) not in self._found:
            raise TapeError(
                f"no gradient for this tensor of shape {list(tensor.shape)}: "
                "the output does not depend on it, or it never met the tape"
            )
        return self._found[id(tensor)][1]

    def __contains__(self, tensor: Tensor) -> bool:
        return id(tensor) in self._found

    def __len__(self) -> int:
        return len(self._found)

    def add(self, tensor: Tensor, gradient: Tensor) -> None:
        """Add what one use of a tensor sends back to it, summed over broadcast axes."""
        gradient = gradient.sum_to_size(tensor.shape).to(tensor.dtype)
        before = self._found.get(id(tensor))
        self._found[id(tensor)] = (tensor, gradient if before is None else before[1] + gradient)


class Tape:
    """A straight-line record of equations; use it as `with gf.tape() as tape:`.

    `keep` says by path which steps keep their values, all of them if left out; of others only their order is known.
    """

    def __init__(self, keep: Callable[[str], bool] | None = None) -> None:
        self.steps: list[Step] = []
        self._keep = keep
        self._open: list[Step] = []
        self._names: dict[int, str] = {}
        self._modules: list[Module] = []
        self._seen: Counter[str] = Counter()
        self._hooks: list[RemovableHandle] = []
        self._outside: Watcher | None = None

    def __enter__(self) -> "Tape":
        self._outside, MODE.watcher = MODE.watcher, self
        self._hooks = [
            register_module_forward_pre_hook(self._enter_module),
            register_module_forward_hook(self._leave_module, always_call=True),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        MODE.watcher = self._outside
        for hook in self._hooks:
            hook.remove()

    def _enter_module(self, module: Module, _args: object) -> None:
        if MODE.watcher is not self:
            return
        if not self._modules:
            self._names = {id(part): name for name, part in module.named_modules()}
        self._modules.append(module)

    def _leave_module(self, _module: Module, _args: object, _result: object) -> None:
        if MODE.watcher is self and self._modules:
            self._modules.pop()

    def record(self, equation: Recordable, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Run an equation's plain function and keep what went in and what came out."""
        if MODE.checking:
            equation.check(*args, **kwargs)
        path, place = self._path(equation)
        kept = self._keep is None or self._keep(path)
        inputs = _freeze_generators(equation.bind(args, kwargs)) if kept else {}
        step = Step(path, equation, inputs, place=place)
        (self._open[-1].children if self._open else self.steps).append(step)
        self._open.append(step)
        try:
            with unchecked():
                result = equation.fn(*args, **kwargs)
        finally:
            self._open.pop()
        if not kept:
            return result
        fresh = _apart(result, step.input_tensors)
        step.outputs = fresh if isinstance(fresh, tuple) else (fresh,)
        step.versions = tuple(_version(tensor) for tensor in step.input_tensors)
        return fresh

    def _path(self, equation: Recordable) -> tuple[str, str]:
        """Where a step stands: its own path, and the module it runs in."""
        if self._open:
            above, place = self._open[-1].path, self._open[-1].place
        else:
            above = place = self._names.get(id(self._modules[-1]), "") if self._modules else ""
        path = f"{above}.{equation.name}" if above else equation.name
        self._seen[path] += 1
        return path if self._seen[path] == 1 else f"{path}.{self._seen[path]}", place

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
        """Run every step again from the leaves and give the last step's result, or what became of another tensor.

        With `deep`, steps that have parts are replayed through their parts. `changes` puts new tensors in the place
        of recorded ones; then only the steps that depend on them run again.
        """
        values = {id(old): new for old, new in changes}
        result: object = None
        with plain(), unchecked():
            for step in self._program(deep):
                if changes and not any(id(tensor) in values for tensor in step.input_tensors):
                    continue
                _unchanged(step)
                inputs = {name: _substitute(value, values) for name, value in step.inputs.items()}
                result = step.equation.fn(**inputs)
                outputs = result if isinstance(result, tuple) else (result,)
                for old, new in zip(step.output_tensors, _tensors(outputs), strict=True):
                    values.setdefault(id(old), new)  # what was changed stays changed
        if of is not None:
            return values.get(id(of), of)
        if (deep or changes) and self.steps:  # several parts may have made the last step's outputs, or none ran again
            again = [_substitute(output, values) for output in self.steps[-1].outputs]
            return tuple(again) if len(again) > 1 else again[0] if again else result
        return result

    def reverse(self, seed: Tensor | None = None, of: Tensor | None = None, deep: bool = False) -> Gradients:
        """Run the tape backward through the gradient rules.

        `of` is the tensor to differentiate, by default the last step's first output; `seed` is its
        cotangent, by default one for a single number. With `deep`, steps that have parts go
        backward through their parts instead of by their own rule; both give the same gradients.
        """
        if not self.steps:
            raise TapeError("the tape is empty: call equations inside `with gf.tape() as tape:` first")
        if self._keep is not None and not all(step.kept for top in self.steps for step in top.walk()):
            raise TapeError("the tape kept only some values, and goes backward only when it kept all of them")
        of = self.steps[-1].output if of is None else of
        if seed is None:
            if of.numel() != 1:
                raise TapeError(f"the output has shape {list(of.shape)}: give reverse() a seed of that shape")
            seed = torch.ones_like(of)
        if seed.shape != of.shape:
            raise TapeError(f"the seed has shape {list(seed.shape)}, wanted {list(of.shape)}, the output's shape")
        found = Gradients()
        found.add(of, seed)
        with plain(), unchecked(), torch.no_grad():
            for step in reversed(self.steps):
                _pull_back(step, found, deep)
        return found

    def _program(self, deep: bool) -> Iterator[Step]:
        for step in self.steps:
            yield from _parts(step, deep)


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
    back = None if deep and step.children else step.equation.pull_back(step.inputs, outputs, cotangents)
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
            for tensor, part in zip(_tensors(step.inputs[name]), _tensors(gradient), strict=True):
                found.add(tensor, part)


def _unchanged(step: Step) -> None:
    now = tuple(_version(tensor) for tensor in step.input_tensors)
    if now != step.versions:
        raise TapeError(f"{step.path}: an input was changed in place after it was recorded; replay before changing it")


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _tensors(value: object) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def _substitute(value: object, values: Mapping[int, Tensor]) -> object:
    if isinstance(value, Tensor):
        return values.get(id(value), value)
    if isinstance(value, (list, tuple)):
        return type(value)(_substitute(item, values) for item in value)
    if isinstance(value, torch.Generator):
        return value.clone_state()
    return value


def _freeze_generators(inputs: dict[str, object]) -> dict[str, object]:
    """Keep each random source as it stands now, so that a replay draws the same numbers."""
    if "generator" in inputs and inputs["generator"] is None:
        device = next((t.device for t in _tensors(list(inputs.values()))), torch.device("cpu"))
        cuda = device.type == "cuda"
        inputs["generator"] = torch.cuda.default_generators[device.index] if cuda else torch.default_generator
    return {
        name: value.clone_state() if isinstance(value, torch.Generator) else value for name, value in inputs.items()
    }


def _apart(result: object, inputs: Sequence[Tensor]) -> object:
    """A result that is one of the inputs gets an identity of its own, so that the tape can tell them apart."""
    if isinstance(result, tuple):
        return tuple(_apart(item, inputs) for item in result)
    if isinstance(result, Tensor) and any(result is tensor for tensor in inputs):
        return result.view_as(result)
    return result
