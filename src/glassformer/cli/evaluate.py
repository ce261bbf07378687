"""`glassformer evaluate`: metrics of a model on data."""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, TypeVar

from glassformer.cli.report import Json, RunStep, talk, write_json, write_table

if TYPE_CHECKING:
    from glassformer.training.evaluate import Metrics

TaskName = Literal["translate", "gpt", "masked", "classify"]
T = TypeVar("T")

QUIET_SECONDS = 2.0  # before the first progress message


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
    """Evaluate a model on data: loss, perplexity, bits per byte, BLEU and chrF, accuracy and F1.

    Parameters
    ----------
    model
        Folder of a model.
    data
        A file or folder as for training; or phrasebook or stdlib for their held-out part, which is the default of
        the task.
    target_path
        Target sentences, line by line, if the pairs are in two files.
    task
        The task that the model is for; an error if it is for another.
    num_beams
        Number of beams of beam search; 1 is greedy decoding.
    """
    from glassformer.training.evaluate import BUILT_IN, evaluate_model, load_model

    loaded = load_model(model, task, step)
    data = data or BUILT_IN[loaded.task]
    talk(f"evaluating {model} on {data}")
    metrics = evaluate_model(loaded, data, target_path, num_beams, report_progress)
    if json:
        write_json({"model": model, "task": loaded.task, "data": data, "metrics": metrics})
    else:
        show_metrics(loaded.task, metrics)


def report_progress(what: str) -> Callable[[Iterator[T]], Iterator[T]]:
    """Report progress of long work after two seconds, four, eight and so on."""

    def follow(items: Iterator[T]) -> Iterator[T]:
        began, pause = time.monotonic(), QUIET_SECONDS
        for number, item in enumerate(items):
            if time.monotonic() - began >= pause:
                talk(f"{number:,} {what} in {time.monotonic() - began:.0f} s")
                pause *= 2
            yield item

    return follow


def show_metrics(task: str, metrics: "Metrics") -> None:
    """Print metrics as a table."""
    from glassformer.training.metrics import ClassifierMetrics, Score, TranslationMetrics

    values = dict(vars(metrics))
    if isinstance(metrics, TranslationMetrics):
        values |= vars(values.pop("scores"))
    classes = values.pop("classes", ())
    rows = [
        (
            name.replace("_", " "),
            f"{value.score:.2f}   {value.signature}" if isinstance(value, Score) else _number(value),
        )
        for name, value in values.items()
    ]
    write_table((task, "value"), rows)
    if isinstance(metrics, ClassifierMetrics):
        write_table(("class", "F1", "texts"), [(c.name, _number(c.f1), _number(c.texts)) for c in classes])


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
