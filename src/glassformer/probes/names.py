"""Step names of a trace, from the modules of the model and the names that equations declare."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from torch import Tensor, nn

from glassformer.equation import Equation
from glassformer.errors import TapeError, did_you_mean
from glassformer.layers.attention import Attention
from glassformer.recording import Tape
from glassformer.steps import Step


def equation_of(step: Step) -> Equation[..., object]:
    """The equation of a step, with everything known about it."""
    if not isinstance(step.equation, Equation):
        raise TapeError(f"{step.path}: {step.equation.name} is not an equation of the catalog")
    return step.equation


class Names:
    """What each step of a tape is called, by its path, and which path a name means.

    A module that runs a single equation gives it its own name: `layers.3.attention.query`. Other steps are called by
    their module and the name that their equation declares for the result, or the equation that reads it there, else by
    their equation: `layers.3.attention.weights`. A list of layers is called `layers` whatever the model calls it.
    """

    def __init__(self, model: nn.Module, tape: Tape) -> None:
        every = list(model.named_modules(remove_duplicate=False))  # a block may run as several layers
        self.places = _readable_places(
            [name for name, _ in every], [n for n, m in every if isinstance(m, nn.ModuleList)]
        )
        self._heads = {name: module.shape.heads for name, module in every if isinstance(module, Attention)}
        bare = {name for name, module in every if name and not list(module.children())}
        several = Counter(place for place, _ in {(step.place, step.equation.name) for step in tape.steps})
        self._single = {place for place in bare if several[place] == 1}
        self._words: dict[int, list[str]] = defaultdict(list)  # by tensor
        self._owner: dict[str, int] = {}
        self._shared: set[str] = set()
        self._paths: dict[str, str] = {}
        self._names: dict[str, str] = {}
        for step in tape.steps:
            self._note_words(step)
        for top in tape.steps:
            for step in top.walk():
                self._give_name(step, outer=step is top)
        for top in tape.steps:
            for step in top.walk():
                self._give_words(step)

    def __getitem__(self, path: str) -> str:
        """The name of the step at a path of the tape."""
        return self._names[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names.values())

    def path(self, name: str) -> str:
        """The path that a name means: a step's own name or path, or the word of an equation that reads it."""
        if name not in self._paths:
            raise TapeError(f"no step is called {name!r}; {did_you_mean(name, self._paths)}")
        return self._paths[name]

    def readable(self, parameter: str) -> str:
        """What a parameter is called, its module named as its steps are."""
        place, dot, own = parameter.rpartition(".")
        return self.places.get(place, place) + dot + own

    def heads(self, step: Step) -> int | None:
        """How many heads the queries have in the attention that a step is part of."""
        place = step.place
        while place and place not in self._heads:
            place = place.rpartition(".")[0]
        return self._heads.get(place)

    def _place(self, step: Step) -> str:
        return self.places.get(step.place, step.place)

    def _note_words(self, step: Step) -> None:
        """Note the words for what a step reads and makes, in the order of the run; a word stays with its first."""
        words = equation_of(step).step_names
        for name, value in step.inputs.items():
            if name in words and isinstance(value, Tensor):
                self._note(step, words[name], value)
        for child in step.children:
            self._note_words(child)
        for result, value in zip(equation_of(step).results, step.outputs, strict=False):
            if result.name in words and isinstance(value, Tensor):
                self._note(step, words[result.name], value, made=True)

    def _note(self, step: Step, word: str, value: Tensor, made: bool = False) -> None:
        name = f"{self._place(step)}.{word}".removeprefix(".")
        if self._owner.setdefault(name, id(value)) == id(value):
            self._words[id(value)].append(name)
        elif made:
            self._shared.add(name)  # one word for the results of two steps says which of neither

    def _give_name(self, step: Step, outer: bool) -> None:
        place = self._place(step)
        own = [w for w in self._words_of(step) if w.rpartition(".")[0] == place and w not in self._shared]
        if outer and step.place in self._single:
            name = self._numbered(place)
        elif own and own[-1] not in self._paths:
            name = own[-1]
        else:
            name = self._numbered(f"{place}.{step.equation.name}".removeprefix("."))
        self._names[step.path] = name
        self._paths[name] = step.path

    def _give_words(self, step: Step) -> None:
        """Let a step be found by its path and by every word it goes by."""
        for word in (step.path, *self._words_of(step)):
            self._paths.setdefault(word, step.path)

    def _words_of(self, step: Step) -> list[str]:
        return self._words[id(step.outputs[0])] if step.kept and isinstance(step.outputs[0], Tensor) else []

    def _numbered(self, name: str) -> str:
        count = 1
        while (name if count == 1 else f"{name}.{count}") in self._paths:
            count += 1
        return name if count == 1 else f"{name}.{count}"


def _readable_places(modules: Sequence[str], lists: Sequence[str]) -> dict[str, str]:
    """Every module's place, with each list of layers called `layers`, and its holder left out if there is one list."""
    short = {name: "layers" if len(lists) == 1 else f"{name.rpartition('.')[0]}.layers".lstrip(".") for name in lists}
    places: dict[str, str] = {}
    for name in modules:
        inside = max((item for item in lists if f"{name}.".startswith(f"{item}.")), key=len, default=None)
        places[name] = name if inside is None else short[inside] + name[len(inside) :]
    return places
