"""Examples in, prompt out: tell a model what is wanted by showing it, right answers beside wrong ones."""

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.errors import DecodingError


@dataclass(frozen=True)
class Example:
    """One example: a question, its right answer, and if one is given a wrong one to tell it from."""

    question: str
    answer: str
    wrong: str | None = None


@dataclass(frozen=True, kw_only=True)
class PromptTemplate:
    """The words round questions and answers."""

    question: str = "Question: "
    answer: str = "Answer: "
    wrong: str = "Not: "
    between: str = "\n\n"


USUAL_WORDS = PromptTemplate()


def few_shot_prompt(
    shots: Sequence[Example], question: str, instruction: str = "", wording: PromptTemplate = USUAL_WORDS
) -> str:
    """A prompt that shows the examples in order and ends where the model is to answer (Brown et al., 2020).

    An example with a wrong answer shows that first, marked as such: a contrast (Chia et al., 2023).
    """
    if not question.strip():
        raise DecodingError("the question is empty, wanted what the model is to answer")
    for number, shot in enumerate(shots):
        if not shot.question.strip() or not shot.answer.strip():
            raise DecodingError(f"example {number} has an empty question or answer, wanted both")
    shown = [_example(shot, wording) for shot in shots]
    asked = f"{wording.question}{question}\n{wording.answer.rstrip()}"
    return wording.between.join([*([instruction] if instruction else []), *shown, asked])


def _example(shot: Example, wording: PromptTemplate) -> str:
    lines = [f"{wording.question}{shot.question}"]
    if shot.wrong is not None:
        lines.append(f"{wording.wrong}{shot.wrong}")
    return "\n".join([*lines, f"{wording.answer}{shot.answer}"])


def few_shot_stops(wording: PromptTemplate = USUAL_WORDS) -> tuple[str, ...]:
    """Where an answer to such a prompt ends: before the model goes on to make up the next example."""
    return (wording.between, f"\n{wording.question.rstrip()}")
