"""Exercises: a question, its computed answer, and the check of a typed one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

from glassformer.arithmetic import DIGITS, MINUS, MOST_DIGITS, number
from glassformer.course.page import WRITTEN_OUT, Operand, operand_texts
from glassformer.recording import Tape

EVERYDAY = (0.0, 1.0, 2.0)  # answers that occur in many hints by chance
Answered: TypeAlias = float | tuple[int, ...]


@dataclass(frozen=True)
class Judgement:
    """Whether a typed answer is right, and the reply."""

    right: bool
    text: str


@dataclass(frozen=True)
class Exercise:
    """A question with the tables it needs, its answer and the arithmetic behind it, and a hint."""

    question: str
    hint: str
    answer: Answered
    working: str
    tolerance: float
    given: tuple[Operand, ...] = ()

    def judge(self, typed: str) -> Judgement:
        """Say whether an answer is right; a number may be written 0.25, 1/4 or 2.5e-1, a shape 3x4."""
        if not typed.strip():
            return Judgement(False, f"No answer yet. {self.hint}")
        given = _shape(typed) if isinstance(self.answer, tuple) else _number_typed(typed)
        if given is None:
            wanted = "a shape such as 3x4" if isinstance(self.answer, tuple) else "a number"
            return Judgement(False, f"{typed.strip()!r} is not {wanted}.")
        if self._near(given):
            return Judgement(True, f"Right: {self.working}" if self.working else "Right.")
        return Judgement(False, f"Not {typed.strip()}. {self.hint}")

    def _near(self, given: Answered) -> bool:
        if isinstance(given, tuple) or isinstance(self.answer, tuple):
            return given == self.answer
        return abs(given - self.answer) <= self.tolerance or given == self.answer

    @property
    def answer_text(self) -> str:
        """The right answer as a reader would type it, in enough digits to be accepted."""
        if isinstance(self.answer, tuple):
            return "x".join(map(str, self.answer))
        if float(self.answer).is_integer():
            return f"{self.answer:.0f}".replace("-", MINUS)
        enough = (digits for digits in range(DIGITS, MOST_DIGITS) if self._near(float(f"{self.answer:.{digits}g}")))
        return number(self.answer, next(enough, MOST_DIGITS))

    @property
    def solution(self) -> str:
        """The right answer, with its arithmetic where there is some."""
        return f"{self.answer_text}: {self.working}" if self.working else self.answer_text

    @property
    def given_lines(self) -> list[str]:
        """A line for each tensor that the answer is computed from."""
        texts = zip(self.given, operand_texts(self.given), strict=True)
        return [f"{operand.name} = {text}    {operand.meaning}" for operand, text in texts]


def operands_given(tape: Tape, question: str, held: Sequence[object]) -> tuple[Operand, ...]:
    """The tensors of a lesson that an answer is computed from, except those whose numbers are in the question.

    `held` is what the lesson knew before; tensors made by the answer itself would give part of it away.
    """
    storages = {_storage(value) for value in held if isinstance(value, Tensor)}
    known = {id(output) for step in tape.steps for output in step.outputs}
    found: list[Operand] = []
    for step in tape.steps:
        symbols = {symbol.name: symbol for symbol in step.equation.symbols}
        for name, value in step.inputs.items():
            if isinstance(value, Tensor) and id(value) not in known and _storage(value) in storages:
                known.add(id(value))
                if _needs_telling(value, question):
                    found.append(Operand(name, symbols[name].meaning, value))
    return tuple(found)


def _needs_telling(table: Tensor, question: str) -> bool:
    """Whether a tensor is small, has more than one distinct number, and is not in the question itself."""
    numbers = {number(x) for x in table.flatten().tolist()}
    return table.numel() <= WRITTEN_OUT and len(numbers) > 1 and any(text not in question for text in numbers)


def _storage(tensor: Tensor) -> int:
    """The storage of a tensor, which a slice shares with the whole."""
    return tensor.untyped_storage().data_ptr()


def gives_away(hint: str, answer: Answered) -> bool:
    """Whether a hint contains the answer."""
    if isinstance(answer, tuple) or abs(answer) in EVERYDAY:
        return False
    found = re.findall(r"\d[\d,]*\.?\d*(?:e[-+]?\d+)?", hint)
    return any(number(float(text.replace(",", "").rstrip("."))) == number(abs(answer)) for text in found)


def _shape(typed: str) -> tuple[int, ...] | None:
    text = typed.strip().strip("[]()")
    return tuple(map(int, re.findall(r"\d+", text))) if re.fullmatch(r"\d+(\s*[x×*, ]\s*\d+)*", text) else None


def _number_typed(typed: str) -> float | None:
    over, _, under = typed.strip().replace(MINUS, "-").partition("/")
    try:
        return float(over) / float(under) if under else float(over)
    except (ValueError, ZeroDivisionError):
        return None
