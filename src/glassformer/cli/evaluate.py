"""`glassformer evaluate`: how good a model is on data, in the figures that suit its kind."""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, TypeVar

from glassformer.cli.report import Json, RunStep, talk, write_json, write_table

if TYPE_CHECKING:
    from glassformer.training.evaluate import Metrics

TaskName = Literal["translate", "gpt", "masked", "classify"]
T = TypeVar("T")

QUIET_SECONDS = 2.0  # seconds before anything is said of progress


def evaluate(
    model: str,
    /,
    *,
    data: str | None = None,
    target_path: str | None = None,
    task: TaskName | None = None,
    num_beams: int = 1,
    step: RunStep = None,
    json: Json = False,
) -> None:
    """Measure a model on data: loss, perplexity, bits per byte, BLEU and chrF, accuracy and F1.

    Parameters
    ----------
    model
        The folder of a model.
    data
        A file or folder as for training, or phrasebook or stdlib, of which the part is taken that is not
        trained on; the one that suits the task if left out.
    target_path
        The other language, line by line, of sentence pairs in two files.
    task
        What the model has to be for; it knows by itself, this only makes sure.
    num_beams
        Translations to weigh at a time; 1 takes the likeliest token at every step.
    """
    from glassformer.training.evaluate import BUILT_IN, evaluate_model, load_model

    subject = load_model(model, task, step)
    data = data or BUILT_IN[subject.task]
    talk(f"measuring {model} on {data}")
    figures = evaluate_model(subject, data, target_path, num_beams, telling)
    if json:
        write_json({"model": model, "task": subject.task, "data": data, "figures": figures})
    else:
        show_figures(subject.task, figures)


def telling(what: str) -> Callable[[Iterator[T]], Iterator[T]]:
    """Go along with work that takes long, and say how far it is: after two seconds, four, eight and so on."""

    def follow(items: Iterator[T]) -> Iterator[T]:
        began, pause = time.monotonic(), QUIET_SECONDS
        for number, item in enumerate(items):
            if time.monotonic() - began >= pause:
                talk(f"{number:,} {what} in {time.monotonic() - began:.0f} s")
                pause *= 2
            yield item

    return follow


def show_figures(task: str, figures: "Metrics") -> None:
    """Write figures as a table."""
    from glassformer.training.metrics import ClassifierMetrics, Score, TranslationMetrics

    values = dict(vars(figures))
    if isinstance(figures, TranslationMetrics):
        values |= vars(values.pop("scores"))
    classes = values.pop("classes", ())
    rows = [
        (
            name.replace("_", " "),
            f"{value.score:.2f}   {value.signature}" if isinstance(value, Score) else _figure(value),
        )
        for name, value in values.items()
    ]
    write_table((task, "value"), rows)
    if isinstance(figures, ClassifierMetrics):
        write_table(("class", "F1", "texts"), [(c.name, _figure(c.f1), _figure(c.texts)) for c in classes])


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
