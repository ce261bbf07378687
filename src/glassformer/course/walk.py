"""A walk runs a lesson: every number it shows is on its tape, and every claim it makes is checked."""

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import msgspec
import torch
from torch import Tensor

from glassformer.arithmetic import number
from glassformer.charts import Curve
from glassformer.course.blueprint import Blueprint
from glassformer.course.diagrams import flow_lines
from glassformer.course.exercise import Answered, Exercise, gives_away, operands_given
from glassformer.course.page import (
    Beside,
    Chart,
    Choice,
    Claim,
    Drawing,
    Grid,
    Operand,
    Page,
    PagePart,
    Prose,
    Slope,
    Work,
    rows_beside,
    value_text,
)
from glassformer.course.worked.comparing import as_data, same
from glassformer.course.worked.examples import WorkedExample, examples
from glassformer.course.worked.recomputing import Given
from glassformer.course.worked.verdicts import Result, check_example, compare_with_print
from glassformer.equation import Equation, reference_mode
from glassformer.equations.gradients import difference_quotient
from glassformer.errors import LessonError
from glassformer.probes.cells import written
from glassformer.recording import Tape
from glassformer.steps import Gradients, Step

CLOSE_ENOUGH = 0.005  # tolerance of an answer, unless an exercise sets another
FEW_POINTS = 12  # a curve with at most this many has each point marked
NUDGE = 1e-5  # step of a finite difference
AGREEING = 1e-3  # relative tolerance between a finite difference and the gradient
ROUNDING = 1e-9  # tolerance between numbers that differ only in the order of their sums
STYLES = ("one", "two", "three")  # of the curves of a chart


Own = TypeVar("Own", bound="Walk")


@dataclass(frozen=True)
class LessonStep:
    """A step of a lesson: its title, an analogy, and the method that runs it."""

    title: str
    like: str
    method: Callable[..., None]

    @property
    def text(self) -> str:
        """What the step explains: the docstring of its method."""
        return " ".join((inspect.getdoc(self.method) or "").split())


def step(title: str, like: str) -> Callable[[Callable[[Own], None]], LessonStep]:
    """Make a method of a walk a step of its lesson; steps run in the order of their definition."""
    return lambda method: LessonStep(title, like, method)


class Walk:
    """A lesson as it runs: records equations on a tape, keeps pages and collects exercises.

    A lesson is a subclass whose methods are its steps; what a later step needs again is kept as an attribute.
    """

    def __init__(self, reporting: bool = False) -> None:
        """Begin; with `reporting`, as in a notebook, a claim that does not hold is shown and the lesson continues."""
        self.reporting = reporting
        self.pages: list[Page] = []
        self.exercises: list[Exercise] = []
        self.tape = Tape()
        self._recording = False

    # Steps.

    @classmethod
    def steps(cls) -> list[LessonStep]:
        """The steps, in order."""
        return [part for base in reversed(cls.__mro__) for part in vars(base).values() if isinstance(part, LessonStep)]

    def quiz(self) -> None:
        """Ask the exercises; a lesson with exercises overrides this."""

    def run(self) -> None:
        """Run every step, then ask the exercises."""
        try:
            for each in self.steps():
                self.begin(each.title, each.text, each.like)
                each.method(self)
            self.quiz()
        finally:
            self.close()

    def begin(self, title: str, text: str = "", like: str = "") -> None:
        """Begin a page, with recording on."""
        self._record(True)
        self.pages.append(Page(title, text, like))

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Run at full speed what is not shown step by step, such as the training of a model."""
        self._record(False)
        try:
            yield
        finally:
            self._record(True)

    # Text and claims.

    def say(self, text: str) -> None:
        """Add some sentences."""
        self._add(Prose(text))

    def claim(self, text: str, holds: bool | Tensor) -> None:
        """Add a claim; one that does not hold ends the lesson, unless the walk only reports."""
        held = bool(holds)
        if not held and not self.reporting:
            raise LessonError(f"{self.pages[-1].title}: it does not hold that {text}")
        self._add(Claim(text, held))

    def same(self, text: str, a: Tensor | float, b: Tensor | float, within: float = ROUNDING) -> None:
        """Claim that two numbers, or all numbers of two tensors, agree within a tolerance."""
        self.claim(text, _farthest_apart(a, b) <= within)

    def differ(self, text: str, a: Tensor | float, b: Tensor | float, by: float) -> None:
        """Claim that two tensors differ by more than `by` somewhere."""
        self.claim(text, _farthest_apart(a, b) > by)

    def less(self, text: str, a: Tensor | float, b: Tensor | float) -> None:
        """Claim that one number is smaller than another."""
        self.claim(text, float(a) < float(b))

    def check_gradient(
        self, name: str, of: Callable[[Tensor], Tensor], at: Tensor, gradient: Tensor, h: float = NUDGE
    ) -> Tensor:
        """Nudge the entry with the largest gradient, run forward again, and claim that the two slopes agree.

        `of` runs the equations from the tensor called `name` to one number, such as the loss. Gives the slope measured.
        """
        index = tuple(int(i) for i in torch.unravel_index(gradient.abs().argmax(), gradient.shape))
        nudged = at.clone()
        nudged[index] += h
        measured, promised = difference_quotient(of(nudged), of(at), h), gradient[index]
        self.show(measured)
        where = f"{name}[{', '.join(map(str, index))}]"
        text = f"at {where}, the largest gradient, measuring gives {number(measured)} and the rules {number(promised)}"
        self.same(text, measured, promised, within=AGREEING * abs(float(promised)) + ROUNDING)
        return measured

    def page(self) -> Page:
        """The page so far, with recording off; the last expression of a notebook cell."""
        self._record(False)
        return self.pages[-1]

    def close(self) -> None:
        """Stop recording."""
        self._record(False)

    # Numbers.

    def tensor(self, values: object) -> Tensor:
        """A float64 tensor of these numbers."""
        return torch.tensor(values, dtype=torch.float64)

    def given(self, example: str) -> Given:
        """The inputs of a worked example."""
        return Given(_worked_example(example).inputs, _worked_example(example).printed or {})

    def worked(self, example: str) -> Given:
        """The values of a worked example, recomputed and checked."""
        return Given(self.verdict(example).value)

    def verdict(self, example: str) -> Result:
        """The verdict on a worked example, recomputed and checked."""
        result = check_example(_worked_example(example))
        if not result.expected_ok:
            raise LessonError(f"{example} comes out wrong in {', '.join(result.differing)}")
        return result

    def inside(self, equation: Equation[..., Tensor]) -> Tensor:
        """The output of the latest call of an equation, at any depth."""
        for step in self._steps():
            if step.equation is equation:
                return step.output
        raise LessonError(f"{self.pages[-1].title}: no {equation.name} has run")

    def back(self, of: Tensor, seed: Tensor | None = None) -> Gradients:
        """Run the tape backward from a number, by the gradient rules."""
        return self.tape.reverse(seed, of)

    # Equations, tables and charts.

    def show(self, value: object, *cells: Sequence[int], rows: Sequence[str] = (), columns: Sequence[str] = ()) -> None:
        """Show the equation that made a value, and the arithmetic of some of its numbers."""
        step = self._maker(value)
        equation = step.equation
        symbols = {symbol.name: symbol for symbol in equation.symbols}
        inputs = [Operand(name, symbols[name].meaning, given) for name, given in step.inputs.items()]
        result = equation.results[[output is value for output in step.outputs].index(True)]
        output = Operand(result.name, symbols[result.name].meaning, value)
        with reference_mode():
            arithmetic = [written(step, tuple(cell)) for cell in cells] or [_single(step)]
        again = any(isinstance(part, Work) and part.equation is equation for part in self.pages[-1].parts)
        told = tuple(operand for operand in inputs if _worth_telling(operand.value))
        workings = tuple(line for line in arithmetic if " = " in line)  # a number that was only copied has none
        self._add(Work(equation, told, output, workings, tuple(rows), tuple(columns), again))

    def index_labels(self, **sizes: int) -> list[str]:
        """Labels for the rows of several axes, given by name and size: `head 0, query 0`, `head 0, query 1`, ..."""
        indices = itertools.product(*map(range, sizes.values()))
        return [", ".join(f"{name} {i}" for name, i in zip(sizes, index, strict=True)) for index in indices]

    def show_gradient(
        self, found: Gradients, tensor: Tensor, name: str, rows: Sequence[str] = (), columns: Sequence[str] = ()
    ) -> None:
        """Show the gradient of a tensor, and the rules that sent it back."""
        users = [step for step in self.tape.steps if any(tensor is given for given in step.input_tensors)]
        sent = [step for step in users if any(output in found for output in step.output_tensors)]
        rules = {step.equation.name: step.equation for step in sent}
        self._add(Slope(name, found[tensor], tuple(rules.values()), tuple(rows), tuple(columns)))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Show a table of words and numbers."""
        written_rows = tuple(tuple(value_text(cell) for cell in row) for row in rows)
        self._add(Grid(tuple(columns), written_rows))

    def plot(
        self,
        title: str,
        curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
        across: str = "step",
        logarithmic: bool = False,
        joined: bool = True,
    ) -> None:
        """Draw curves, or points that are not joined: each a name with its x and y values."""
        drawn = [
            Curve(
                name,
                STYLES[i % len(STYLES)],
                list(zip(map(float, x), map(float, y), strict=True)),
                len(x) <= FEW_POINTS,
            )
            for i, (name, (x, y)) in enumerate(curves.items())
        ]
        self._add(Chart(title, tuple(drawn), across, logarithmic, joined))

    def beside(self, example: str, **values: object) -> None:
        """Show computed numbers beside the printed ones; they must be those of the worked example."""
        wanted = _worked_example(example)
        computed = {key: as_data(value) for key, value in values.items()}
        differing = [key for key, value in computed.items() if not same(value, wanted.expected[key])]
        for key in differing:
            self.claim(f"{key} is {value_text(wanted.expected[key])}; it is {value_text(computed[key])}", False)
        if differing:
            return
        printed = {key: value for key, value in (wanted.printed or {}).items() if key in computed}
        judged = compare_with_print(msgspec.structs.replace(wanted, printed=printed), computed, {})
        decimals = wanted.printed_decimals or {}
        rows = tuple(
            row
            for key, value in computed.items()
            for row in rows_beside(key, value, printed.get(key), decimals.get(key))
        )
        how = wanted.note if wanted.recipe is None else f"How the printed numbers came about: {wanted.recipe.how}."
        where = f"{wanted.source}, {wanted.section}"
        self._add(Beside(example, where, rows, None if judged is None else judged.standing, how))

    def choose(self, setting: str, values: Sequence[object], make: Callable[[object], None], start: int = 0) -> None:
        """Show what `make` adds to the page for each value of a setting, one at a time; a page has a control for it."""
        page, found = self.pages[-1], []
        around, page.parts = page.parts, []
        for value in values:
            page.parts = []
            make(value)
            found.append(tuple(page.parts))
        page.parts = around
        self._add(Choice(setting, tuple(value_text(value) for value in values), tuple(found), start))

    def diagram(self, lines: Sequence[str], plan: Blueprint | None = None) -> None:
        """Show a diagram made of characters; a page draws the plan instead."""
        self._add(Drawing(tuple(lines), plan))

    def flow(self, of: Tensor) -> None:
        """Draw the graph of the equations behind a number."""
        self.diagram(flow_lines(self.tape.steps, of))

    # Exercises.

    def ask(
        self,
        question: str,
        answer: Callable[[], object],
        hint: str,
        cell: Sequence[int] = (),
        tolerance: float = CLOSE_ENOUGH,
    ) -> None:
        """Add an exercise; `answer` computes the right tensor by equations, and `cell` indexes the number asked for."""
        with Tape() as tape:
            result = answer()
        known, working = self._answered(tape, result, tuple(cell))
        if gives_away(hint, known):
            raise LessonError(f"{self.pages[-1].title}: the hint {hint!r} holds the answer")
        held = [*vars(self).values(), *inspect.getclosurevars(answer).nonlocals.values()]
        given = () if isinstance(known, tuple) else operands_given(tape, question, held)
        self.exercises.append(Exercise(question, hint, known, working, tolerance, given))

    def _answered(self, tape: Tape, result: object, cell: tuple[int, ...]) -> tuple[Answered, str]:
        if isinstance(result, tuple):
            return tuple(int(size) for size in result), ""
        steps = [step for step in reversed(tape.steps) if any(output is result for output in step.outputs)]
        if isinstance(result, Tensor):
            with reference_mode():
                working = written(steps[0], cell) if steps else ""
            return float(result[cell]), working if " = " in working else ""
        if not isinstance(result, (int, float)) or not steps:
            raise LessonError(f"{self.pages[-1].title}: an exercise's answer must come out of an equation")
        return float(result), _single(steps[0])

    # The tape.

    def _record(self, on: bool) -> None:
        if on and not self._recording:
            self.tape.__enter__()
        elif self._recording and not on:
            self.tape.__exit__()
        self._recording = on

    def _add(self, part: PagePart) -> None:
        self.pages[-1].parts.append(part)

    def _steps(self) -> Iterator[Step]:
        """Every step, the latest first, each followed by its parts."""
        for step in reversed(self.tape.steps):
            yield from step.walk()

    def _maker(self, value: object) -> Step:
        for step in self._steps():
            if any(output is value for output in step.outputs):
                return step
        raise LessonError(f"{self.pages[-1].title}: the value to show was not made by an equation on the tape")


def _farthest_apart(a: Tensor | float, b: Tensor | float) -> float:
    return float((torch.as_tensor(a) - torch.as_tensor(b)).abs().max())


def _single(step: Step) -> str:
    """The arithmetic of a result that is one number; empty if there is none to show."""
    equation, first = step.equation, step.outputs[0]
    if not equation.has_cell:
        return ""
    if isinstance(first, Tensor):
        return written(step, ()) if first.dim() == 0 else ""
    return f"{equation.arithmetic((), step.inputs)} = {value_text(first)}"


def _worth_telling(value: object) -> bool:
    """Whether to list an input; omitted settings, dtypes and devices teach nothing."""
    return isinstance(value, (Tensor, float, list, tuple)) or (isinstance(value, int) and not isinstance(value, bool))


@cache
def _all_examples() -> dict[str, WorkedExample]:
    return {example.id: example for example in examples()}


def _worked_example(name: str) -> WorkedExample:
    return _all_examples()[name]
