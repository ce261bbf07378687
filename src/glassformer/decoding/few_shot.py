"""Few-shot prompts: examples of questions with right answers, and wrong ones for contrast."""

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.errors import DecodingError


@dataclass(frozen=True)
class Example:
    """One example: a question, its right answer, and optionally a wrong answer for contrast."""

    question: str
    answer: str
    wrong: str | None = None


@dataclass(frozen=True, kw_only=True)
class PromptTemplate:
    """The labels of questions and answers, and the separator between examples."""

    question: str = "Question: "
    answer: str = "Answer: "
    wrong: str = "Not: "
    between: str = "\n\n"


DEFAULT_TEMPLATE = PromptTemplate()


def few_shot_prompt(
    examples: Sequence[Example], question: str, instruction: str = "", template: PromptTemplate = DEFAULT_TEMPLATE
) -> str:
    """A prompt that shows the examples in order and ends where the model should answer (Brown et al., 2020).

    A wrong answer comes before the right one, labeled as such: contrastive prompting (Chia et al., 2023).
    """
    if not question.strip():
        raise DecodingError("the question is empty, wanted what the model should answer")
    for number, example in enumerate(examples):
        if not example.question.strip() or not example.answer.strip():
            raise DecodingError(f"example {number} has an empty question or answer, wanted both")
    shown = [_example(example, template) for example in examples]
    asked = f"{template.question}{question}\n{template.answer.rstrip()}"
    return template.between.join([*([instruction] if instruction else []), *shown, asked])


def _example(example: Example, template: PromptTemplate) -> str:
    lines = [f"{template.question}{example.question}"]
    if example.wrong is not None:
        lines.append(f"{template.wrong}{example.wrong}")
    return "\n".join([*lines, f"{template.answer}{example.answer}"])


def few_shot_stops(template: PromptTemplate = DEFAULT_TEMPLATE) -> tuple[str, ...]:
    """Stop texts for a few-shot prompt: they end an answer before the model makes up another example."""
    return (template.between, f"\n{template.question.rstrip()}")
