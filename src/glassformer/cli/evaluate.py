"""`glassformer evaluate`: the metrics of a model on data."""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec
from cyclopts import Parameter

from glassformer.cli.named_model import AS_STORED, LoadOptions, ModelName, load_named, preset_called
from glassformer.cli.output_files import EXAMPLES_MARK, require_free
from glassformer.cli.report import (
    Json,
    MaybePath,
    T,
    UsageError,
    named_as_options,
    require_exists,
    show_metrics,
    talk,
    write_json,
)
from glassformer.cli.task_names import TASK_NAMES

if TYPE_CHECKING:
    from glassformer.training.task import EvaluatedModel

TaskName: TypeAlias = Annotated[
    str | None, Parameter(help=f"Expected task of the model ({TASK_NAMES}); another one is an error.")
]
QUIET_SECONDS = 2.0  # before the first report of progress


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Examples:
    """What to evaluate on.

    Parameters
    ----------
    data
        A file or folder as for training; if left out, the data that the run held out, or the held-out part of the
        task's built-in data.
    target_path
        The other language, line by line, of sentence pairs in two files.
    num_beams
        Beam width of translations, 1 is greedy; if left out, that of the run.
    batch_size
        Examples of a batch: windows, texts or pairs; as many as usual if left out.
    """

    data: Annotated[str | None, Parameter(alias="-d")] = None
    target_path: str | None = None
    num_beams: Annotated[int | None, Parameter(alias="-b")] = None
    batch_size: int | None = None


HELD_OUT = Examples()


def evaluate(
    model: ModelName,
    /,
    *,
    examples: Examples = HELD_OUT,
    task: TaskName = None,
    options: LoadOptions = AS_STORED,
    out: Annotated[MaybePath, Parameter(alias="-o")] = None,
    json: Json = False,
) -> None:
    """Evaluate a model on data: loss, perplexity, bits per byte, BLEU and chrF, accuracy and F1.

    Parameters
    ----------
    out
        Also write each example with its loss to this .jsonl file: translation, prediction or window of text.
    """
    _require_inputs(examples, out)
    from glassformer.training.evaluate import data_of, evaluate_model

    evaluated = _load(model, options, task, examples.batch_size)
    data, described = data_of(evaluated) if examples.data is None else (examples.data, examples.data)
    talk(f"evaluating {model} on {described}")
    given = examples.data, examples.target_path, examples.num_beams
    lines: list[Mapping[str, object]] = []
    with named_as_options("num_beams", "target_path"):
        metrics = evaluate_model(evaluated, *given, report_progress, lines.append if out else None, talk)
    if out is not None:
        numbered = (msgspec.json.encode({"example": number, **line}) for number, line in enumerate(lines, 1))
        out.write_bytes(b"".join(line + b"\n" for line in numbered))
        talk(f"wrote {out}")
    if json:
        write_json({"model": model, "task": evaluated.task, "data": data, "metrics": metrics})
    else:
        show_metrics(evaluated.task, metrics)


def _require_inputs(examples: Examples, out: Path | None) -> None:
    """Raise on what is wrong whatever the model is, before it is loaded."""
    if examples.batch_size is not None and examples.batch_size < 1:
        raise UsageError(f"--batch-size is {examples.batch_size}, wanted at least 1")
    if out is not None and out.suffix != ".jsonl":
        raise UsageError(f"--out: {out} does not end in .jsonl: it has one example per line, as JSON")
    require_free([(out, EXAMPLES_MARK)])
    if examples.target_path is not None:
        require_exists(examples.target_path)
    if examples.data is not None and not os.path.exists(examples.data):
        from glassformer.training.registry import TASKS

        if examples.data not in {each.built_in for each in TASKS.values()}:
            require_exists(examples.data)


def _load(name: str, options: LoadOptions, task: str | None, batch_size: int | None) -> "EvaluatedModel":
    from glassformer.checkpoints.load import Loaded
    from glassformer.training.evaluate import evaluated_model, require_own_tokenizer

    found = load_named(name, options)
    evaluated = evaluated_model(name, Loaded(found.model, found.tokenizer, found.labels), task, batch_size)
    if preset_called(name) is None:
        require_own_tokenizer(evaluated)
    return evaluated


def report_progress(items: Iterator[T], what: str) -> Iterator[T]:
    """Pass items through, and report how many there were after two seconds, four, eight and so on."""
    began, pause = time.monotonic(), QUIET_SECONDS
    for number, item in enumerate(items):
        if time.monotonic() - began >= pause:
            talk(f"{number:,} {what} in {time.monotonic() - began:.0f} s")
            pause *= 2
        yield item
