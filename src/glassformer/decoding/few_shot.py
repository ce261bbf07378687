"""Few-shot prompts: examples of questions with right answers, and wrong ones for contrast."""

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.errors import DecodingError

SEPARATOR = "\n\n"  # between examples


@dataclass(frozen=True)
class Example:
    """One example: a question, its right answer, and optionally a wrong answer for contrast."""

    question: str
    answer: str
    wrong: str | None = None


def few_shot_prompt(examples: Sequence[Example], question: str, instruction: str = "") -> str:
    """A prompt that shows the examples in order and ends where the model should answer (Brown et al., 2020).

    A wrong answer comes before the right one, labeled as such: contrastive prompting (Chia et al., 2023).
    """
    if not question.strip():
        raise DecodingError("the question is empty, wanted what the model should answer")
    shown = [instruction] if instruction else []
    for number, example in enumerate(examples):
        if not example.question.strip() or not example.answer.strip():
            raise DecodingError(f"example {number} has an empty question or answer, wanted both")
        wrong = "" if example.wrong is None else f"\nNot: {example.wrong}"
        shown.append(f"Question: {example.question}{wrong}\nAnswer: {example.answer}")
    return SEPARATOR.join([*shown, f"Question: {question}\nAnswer:"])


def few_shot_stops() -> tuple[str, ...]:
    """Stop texts for a few-shot prompt: they end an answer before the model makes up another example."""
    return (SEPARATOR, "\nQuestion:")
