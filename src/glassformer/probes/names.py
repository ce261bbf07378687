"""Step names of a trace, from the model's modules and the names that equations declare; and steps selected by name."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import Tensor, nn

from glassformer.equations.attention import attention_scores
from glassformer.equations.heads import split_heads
from glassformer.errors import TapeError
from glassformer.recording import Tape
from glassformer.steps import Step
from glassformer.suggestions import did_you_mean

HEAD_AXES = frozenset({"heads", "groups"})
TOKEN_AXES = frozenset({"seq", "queries", "length"})
_USUAL_AXES = {2: ("batch", "dim"), 3: ("batch", "seq", "dim"), 4: ("batch", "heads", "seq", "dim")}
# What is split into heads is named after the result, as the modules are where the three projections are separate.
_BEFORE_SPLIT = {"queries": "query", "keys": "key", "values": "value"}


class Names:
    """The name of each step of a tape, by path, and the path that a name means.

    A module that runs a single equation names its step: `layers.3.attention.query`. Other steps are named by their
    module and the name that their equation declares for the result, or an equation that reads it there, else by their
    equation: `layers.3.attention.weights`. A list of layers is always called `layers`.
    """

    def __init__(self, model: nn.Module, tape: Tape) -> None:
        modules = list(model.named_modules(remove_duplicate=False))  # a block may run as several layers
        lists = [name for name, module in modules if isinstance(module, nn.ModuleList)]
        short = {n: "layers" if len(lists) == 1 else f"{n.rpartition('.')[0]}.layers".lstrip(".") for n in lists}
        self.modules: dict[str, str] = {}  # each list of layers is `layers`, without its parent if it is the only one
        for name, _ in modules:
            inside = max((item for item in lists if f"{name}.".startswith(f"{item}.")), key=len, default=None)
            self.modules[name] = name if inside is None else short[inside] + name[len(inside) :]
        every = [step for top in tape.steps for step in top.walk()]
        self._heads: dict[str, int] = {}
        for step in every:
            if step.equation is attention_scores and isinstance(q := step.inputs.get("q"), Tensor) and q.dim() > 2:
                self._heads[step.module] = q.shape[-3]
        leaves = {name for name, module in modules if name and not list(module.children())}
        equations = Counter(module for module, _ in {(step.module, step.equation.name) for step in tape.steps})
        self._single = {name for name in leaves if equations[name] == 1}
        self._declared: dict[int, list[str]] = defaultdict(list)  # by tensor
        self._owner: dict[str, int] = {}
        self._ambiguous: set[str] = set()
        self._paths: dict[str, str] = {}
        self._names: dict[str, str] = {}
        for step in tape.steps:
            self._declare(step)
        for step in tape.steps:
            self._declare_before_split(step)
        outer = set(tape.steps)
        for step in every:
            self._give_name(step, step in outer)
        for step in every:
            for name in (step.path, *self._declared_for(step)):
                self._paths.setdefault(name, step.path)

    def __getitem__(self, path: str) -> str:
        """The name of the step at a path of the tape."""
        return self._names[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names.values())

    def path(self, name: str) -> str:
        """The path that a name means: a step's name or path, or a name declared by an equation that reads it."""
        if name not in self._paths:
            raise TapeError(f"no step is called {name!r}; {did_you_mean(name, self._paths)}")
        return self._paths[name]

    def insert(self, path: str, after: str) -> None:
        """Give the name of step `after` to that at `path`, which changes its result; `after` becomes `NAME.before`."""
        name = self._names[after]
        self._paths |= {alias: path for alias, meant in self._paths.items() if meant == after and alias != after}
        before = self._numbered(f"{name}.before")
        self._names |= {path: name, after: before}
        self._paths |= {path: path, before: after}

    def readable(self, parameter: str) -> str:
        """The name of a parameter, with its module named as its steps are."""
        module, dot, own = parameter.rpartition(".")
        return self.modules.get(module, module) + dot + own

    def heads(self, step: Step) -> int | None:
        """The number of query heads of the attention that a step belongs to."""
        module = step.module
        while module and module not in self._heads:
            module = module.rpartition(".")[0]
        return self._heads.get(module)

    def _module(self, step: Step) -> str:
        return self.modules.get(step.module, step.module)

    def _declare(self, step: Step) -> None:
        """Note the names declared for inputs and results, in the order of the run; the first tensor keeps a name."""
        names = step.equation.step_names
        for symbol, value in step.inputs.items():
            if symbol in names and isinstance(value, Tensor):
                self._note(step, names[symbol], value)
        for child in step.children:
            self._declare(child)
        for result, value in zip(step.equation.results, step.outputs, strict=False):
            if result.name in names and isinstance(value, Tensor):
                self._note(step, names[result.name], value, made=True)

    def _declare_before_split(self, step: Step) -> None:
        source = step.inputs.get("x")
        if step.equation is split_heads and isinstance(source, Tensor):
            for name in self._declared_for(step):
                if before := _BEFORE_SPLIT.get(name.rpartition(".")[2]):
                    self._note(step, before, source)

    def _note(self, step: Step, word: str, value: Tensor, made: bool = False) -> None:
        name = f"{self._module(step)}.{word}".removeprefix(".")
        if self._owner.setdefault(name, id(value)) == id(value):
            self._declared[id(value)].append(name)
        elif made:
            self._ambiguous.add(name)  # declared for the results of two steps, it names neither

    def _give_name(self, step: Step, outer: bool) -> None:
        module = self._module(step)
        declared = [n for n in self._declared_for(step) if n.rpartition(".")[0] == module and n not in self._ambiguous]
        if outer and step.module in self._single:
            name = self._numbered(module)
        elif declared and declared[-1] not in self._paths:
            name = declared[-1]
        else:
            name = self._numbered(f"{module}.{step.equation.name}".removeprefix("."))
        self._names[step.path] = name
        self._paths[name] = step.path

    def _declared_for(self, step: Step) -> list[str]:
        return self._declared[id(step.outputs[0])] if step.kept and isinstance(step.outputs[0], Tensor) else []

    def _numbered(self, name: str) -> str:
        numbered, count = name, 1
        while numbered in self._paths:
            count += 1
            numbered = f"{name}.{count}"
        return numbered


def axis_names(step: Step) -> tuple[str, ...]:
    """A name for each axis of a step's first output: as its equation is annotated, or by the usual order of axes."""
    if step.changes is not None:
        return axis_names(step.changes)
    shape = step.output.shape
    axes = [axis for kind in step.equation.results[0].shapes[:1] for axis in kind.axes]
    usual = _USUAL_AXES.get(len(shape), ("batch",) * len(shape))
    behind = next((len(axes) - i - 1 for i, axis in enumerate(axes) if axis.many), len(axes))
    named = [axis.name for axis in axes[len(axes) - behind :]]
    known = (*usual[: len(shape) - len(named)], *named)
    return tuple("keys" if name == "n" and len(shape) == 4 else name for name in known)  # a row of attention weights


@dataclass(frozen=True, kw_only=True)
class Selection:
    """A layer, a head and a token by index, and equations by a pattern over their names or their steps'."""

    layer: int | None = None
    head: int | None = None
    token: int | None = None
    equation: str = "*"

    def steps(self, steps: Iterable[Step], names: Names) -> list[Step]:
        """The steps selected; raises where there are none."""
        every = list(steps)
        found = [s for s in every if self.layer is None or f".layers.{self.layer}." in f".{names[s.path]}."]
        if not found:
            layers = sorted({int(n) for s in every for n in re.findall(r"(?:^|\.)layers\.(\d+)", names[s.path])})
            has = f"the model has layers {layers[0]} to {layers[-1]}" if layers else "the model has no layers"
            raise TapeError(f"there is no layer {self.layer}; {has}")
        named = [s for s in found if any(fnmatchcase(n, self.equation) for n in (s.equation.name, names[s.path]))]
        if not named:
            known = dict.fromkeys(name for step in found for name in (step.equation.name, names[step.path]))
            raise TapeError(f"no equation or step is called {self.equation!r}; {did_you_mean(self.equation, known)}")
        named = _with_index(named, "head", self.head, HEAD_AXES, names)
        return _with_index(named, "token", self.token, TOKEN_AXES, names)

    def starts(self, step: Step, names: Names) -> dict[int, int]:
        """The index selected on each axis of a step that is narrowed; of a key-value head, the one its query uses."""
        found: dict[int, int] = {}
        for index, axes in ((self.token, TOKEN_AXES), (self.head, HEAD_AXES)):
            axis = _axis(step, axes)
            if index is not None and axis is not None:
                size, count = step.output.shape[axis], _count_on(step, axis, names)
                found[axis] = index % count * size // count
        return found


def _with_index(steps: list[Step], what: str, index: int | None, axes: frozenset[str], names: Names) -> list[Step]:
    """The steps that have this head or token; raises where there are none."""
    if index is None:
        return steps
    sizes = {step: _count_on(step, axis, names) for step in steps if (axis := _axis(step, axes)) is not None}
    found = [step for step, size in sizes.items() if -size <= index < size]
    if not found:
        has = f"there are {what}s 0 to {max(sizes.values()) - 1}" if sizes else f"no step here has {what}s"
        raise TapeError(f"there is no {what} {index}; {has}")
    return found


def _axis(step: Step, axes: frozenset[str]) -> int | None:
    if not isinstance(step.outputs[0], Tensor):
        return None
    return next((axis for axis, name in enumerate(axis_names(step)) if name in axes), None)


def _count_on(step: Step, axis: int, names: Names) -> int:
    """The number of heads or tokens on an axis; key-value heads count as the query heads that share them."""
    size = step.output.shape[axis]
    return max(size, names.heads(step) or 0) if axis_names(step)[axis] in HEAD_AXES else size
