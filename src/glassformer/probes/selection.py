"""Which part of a run to look at: a layer, a head, a token, some equations."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import Tensor

from glassformer.errors import TapeError, did_you_mean
from glassformer.probes.names import Names, equation_of
from glassformer.steps import Step

HEAD = frozenset({"heads", "groups"})
TOKEN = frozenset({"seq", "queries", "length"})
_USUAL = {2: ("batch", "dim"), 3: ("batch", "seq", "dim"), 4: ("batch", "heads", "seq", "dim")}


def axis_words(step: Step) -> tuple[str, ...]:
    """A word for each axis of a step's first output: its equation's own, or by the usual order of axes."""
    shape = step.output.shape
    words = [axis for kind in equation_of(step).results[0].shapes[:1] for axis in kind.axes]
    usual = _USUAL.get(len(shape), ("batch",) * len(shape))
    behind = next((len(words) - i - 1 for i, axis in enumerate(words) if axis.many), len(words))
    named = [axis.name for axis in words[len(words) - behind :]]
    known = (*usual[: len(shape) - len(named)], *named)
    return tuple("keys" if word == "n" and len(shape) == 4 else word for word in known)  # a row of attention weights


@dataclass(frozen=True, kw_only=True)
class Selection:
    """A layer, a head and a token by number, and equations by a pattern over their names or their steps'."""

    layer: int | None = None
    head: int | None = None
    token: int | None = None
    equation: str = "*"

    def steps(self, steps: Iterable[Step], names: Names) -> list[Step]:
        """The steps selected; raises where there are none."""
        every = list(steps)
        found = [step for step in every if self._in_layer(names[step.path])]
        if not found:
            layers = sorted({int(n) for s in every for n in re.findall(r"(?:^|\.)layers\.(\d+)", names[s.path])})
            has = f"the model has layers {layers[0]} to {layers[-1]}" if layers else "the model has no layers"
            raise TapeError(f"there is no layer {self.layer}; {has}")
        named = [s for s in found if self._matches(s.equation.name) or self._matches(names[s.path])]
        if not named:
            known = dict.fromkeys(name for step in found for name in (step.equation.name, names[step.path]))
            raise TapeError(f"no equation or step is called {self.equation!r}; {did_you_mean(self.equation, known)}")
        named = _with_place(named, "head", self.head, HEAD, names)
        return _with_place(named, "token", self.token, TOKEN, names)

    def starts(self, step: Step, names: Names) -> dict[int, int]:
        """Which place of a step's axes is selected, by the axes that have one.

        Where several query heads share the keys and values of one, it is theirs.
        """
        found: dict[int, int] = {}
        for wanted, words in ((self.token, TOKEN), (self.head, HEAD)):
            axis = _axis(step, words)
            if wanted is not None and axis is not None:
                size, places = step.output.shape[axis], _places_on(step, axis, names)
                found[axis] = wanted % places * size // places
        return found

    def _in_layer(self, name: str) -> bool:
        return self.layer is None or f".layers.{self.layer}." in f".{name}."

    def _matches(self, name: str) -> bool:
        return fnmatchcase(name, self.equation)


def _with_place(steps: list[Step], what: str, wanted: int | None, words: frozenset[str], names: Names) -> list[Step]:
    """The steps that have this head or token; raises where there are none."""
    if wanted is None:
        return steps
    sizes = {step: _places_on(step, axis, names) for step in steps if (axis := _axis(step, words)) is not None}
    found = [step for step, size in sizes.items() if -size <= wanted < size]
    if not found:
        has = f"there are {what}s 0 to {max(sizes.values()) - 1}" if sizes else f"no step here has {what}s"
        raise TapeError(f"there is no {what} {wanted}; {has}")
    return found


def _axis(step: Step, words: frozenset[str]) -> int | None:
    if not isinstance(step.outputs[0], Tensor):
        return None
    return next((axis for axis, word in enumerate(axis_words(step)) if word in words), None)


def _places_on(step: Step, axis: int, names: Names) -> int:
    """How many places an axis counts: of keys and values that query heads share, as many as there are of these."""
    size = step.output.shape[axis]
    return max(size, names.heads(step) or 0) if axis_words(step)[axis] in HEAD else size
