"""`glassformer evaluate`: the metrics of a model on data."""

import time
from collections.abc import Iterator
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from glassformer.cli.config import TASK_NAMES
from glassformer.cli.report import Json, RunStep, T, require_exists, show_metrics, talk, write_json

TaskName: TypeAlias = Annotated[
    str | None, Parameter(help=f"Expected task of the model ({TASK_NAMES}); another one is an error.")
]
QUIET_SECONDS = 2.0  # before the first report of progress


def evaluate(
    model: str,
    /,
    *,
    data: str | None = None,
    target_path: str | None = None,
    task: TaskName = None,
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
        A file or folder as for training; if left out, the held-out part of the task's built-in data.
    target_path
        The other language, line by line, of sentence pairs in two files.
    num_beams
        Beam width of translations; 1 is greedy.
    """
    from glassformer.training.evaluate import evaluate_model, load_for_evaluation
    from glassformer.training.registry import TASKS

    if data is not None and data not in {each.built_in for each in TASKS.values()}:
        require_exists(data)
    if target_path is not None:
        require_exists(target_path)
    loaded = load_for_evaluation(model, task, step)
    data = data or TASKS[loaded.task].built_in
    talk(f"evaluating {model} on {data}")
    metrics = evaluate_model(loaded, data, target_path, num_beams, report_progress)
    if json:
        write_json({"model": model, "task": loaded.task, "data": data, "metrics": metrics})
    else:
        show_metrics(loaded.task, metrics)


def report_progress(items: Iterator[T], what: str) -> Iterator[T]:
    """Pass items through, and report how many there were after two seconds, four, eight and so on."""
    began, pause = time.monotonic(), QUIET_SECONDS
    for number, item in enumerate(items):
        if time.monotonic() - began >= pause:
            talk(f"{number:,} {what} in {time.monotonic() - began:.0f} s")
            pause *= 2
        yield item
