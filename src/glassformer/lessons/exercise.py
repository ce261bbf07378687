"""A question with an answer that was computed, and a judge of what a reader typed."""

import re
from dataclasses import dataclass
from typing import TypeAlias

from glassformer.arithmetic import MINUS, number

Answered: TypeAlias = float | tuple[int, ...]


@dataclass(frozen=True)
class Judgement:
    """Whether what was typed is right, and what to say to it."""

    right: bool
    text: str


@dataclass(frozen=True)
class Exercise:
    """A question, its answer with the arithmetic behind it, how near is near enough, and a hint."""

    question: str
    hint: str
    answer: Answered
    working: str
    tolerance: float

    def judge(self, typed: str) -> Judgement:
        """Say whether an answer is right; a number may be written 0.25, 1/4 or 2.5e-1, a shape 3x4."""
        if not typed.strip():
            return Judgement(False, f"No answer yet. {self.hint}")
        given = _shape(typed) if isinstance(self.answer, tuple) else _number_typed(typed)
        if given is None:
            wanted = "a shape such as 3x4" if isinstance(self.answer, tuple) else "a number"
            return Judgement(False, f"{typed.strip()!r} is not {wanted}.")
        if self._near(given):
            return Judgement(True, f"Right: {self.working}")
        return Judgement(False, f"Not {typed.strip()}. {self.hint}")

    def _near(self, given: Answered) -> bool:
        if isinstance(given, tuple) or isinstance(self.answer, tuple):
            return given == self.answer
        return abs(given - self.answer) <= self.tolerance or given == self.answer

    @property
    def answer_text(self) -> str:
        """The right answer as a person would type it."""
        return "x".join(map(str, self.answer)) if isinstance(self.answer, tuple) else number(self.answer, 10)


def _shape(typed: str) -> tuple[int, ...] | None:
    text = typed.strip().strip("[]()")
    return tuple(map(int, re.findall(r"\d+", text))) if re.fullmatch(r"\d+(\s*[x×*, ]\s*\d+)*", text) else None


def _number_typed(typed: str) -> float | None:
    over, _, under = typed.strip().replace(MINUS, "-").partition("/")
    try:
        return float(over) / float(under) if under else float(over)
    except (ValueError, ZeroDivisionError):
        return None
