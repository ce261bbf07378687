"""`glassformer train`: settings in, a run folder out; a stopped run resumes where it was."""

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from glassformer.cli.config import Sources, Words, settle, task_and_settings
from glassformer.cli.report import Flag, Json, MaybePath, UsageError, show_metrics, talk, write, write_json
from glassformer.cli.task_names import TASK_NAMES
from glassformer.cli.text_arguments import STANDARD_INPUT, kept_input
from glassformer.errors import GlassformerError

if TYPE_CHECKING:
    from glassformer.training.config import Resolved
    from glassformer.training.run import Run
    from glassformer.training.step import Log

MEGABYTE = 1e6
WORTH_A_PLAN = 60  # seconds of a run from which its end compares it with its plan


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Start(Sources):
    """Data and initial weights of a run.

    Parameters
    ----------
    data
        A file or folder to train on, several with commas between them, or - for standard input (data.path); if left
        out, the built-in data of the task.
    target_path
        Target sentences, line by line, if the pairs are in two files (data.target_path).
    init
        Folder of a model to fine-tune (run.init).
    """

    data: Annotated[str | None, Parameter(alias="-d", allow_leading_hyphen=True)] = None  # - is standard input
    target_path: str | None = None
    init: str | None = None

    def words(self) -> list[str]:
        """The same as key=value settings."""
        data = kept_input() if self.data == STANDARD_INPUT else self.data
        given = {"data.path": data, "data.target_path": self.target_path, "run.init": self.init}
        if empty := [key for key, value in given.items() if value == ""]:
            raise UsageError(f"{empty[0]} is an empty path, wanted a file or folder")
        return [f"{key}={value}" for key, value in given.items() if value is not None]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How the command runs.

    Parameters
    ----------
    resume
        Resume the run in --out exactly where it stopped, after Ctrl-C or a crash; recipe.steps=N adds steps.
    dry_run
        Show the settings and what the run needs (parameters, memory, tokens, disk) without training.
    no_progress
        Print progress line by line instead of in a live panel.
    tensorboard
        Also log to TensorBoard.
    """

    resume: Flag = False
    dry_run: Flag = False
    no_progress: Flag = False
    tensorboard: Flag = False


NO_START, NEW_RUN = Start(), RunOptions()


def train(
    *words: Words,
    start: Start = NO_START,
    out: Annotated[MaybePath, Parameter(alias="-o")] = None,
    options: RunOptions = NEW_RUN,
    json: Json = False,
) -> int | None:
    """Train a model for a task: TASKS.

    Parameters
    ----------
    out
        Run folder; runs/TASK-1 if left out, or the next free number.
    """
    if options.tensorboard:
        from glassformer.training.tensorboard import require_tensorboard

        require_tensorboard()
    task, others = task_and_settings(words)
    given = [*start.words(), *others]  # key=value words win over options
    if options.resume:
        from glassformer.training.run import resolve_resumed

        if out is None:
            raise UsageError("--resume needs the folder of the run: give --out FOLDER")
        resolved = resolve_resumed(out, task, start.preset, start.config, given, _say)
    else:
        resolved = settle(given if task is None else [task, *given], start)
    _require_files(resolved)
    if options.dry_run:
        return _show_plan(resolved, json)
    return _train(resolved, out if options.resume and out else _new_folder(resolved.task, out), options, json)


train.__doc__ = str(train.__doc__).replace("TASKS", TASK_NAMES)  # those there are, for the help


def _train(resolved: "Resolved", folder: Path, options: RunOptions, json: bool) -> int | None:
    from glassformer.checkpoints.run_checkpoints import checkpoint_steps
    from glassformer.errors import InterruptedRunError
    from glassformer.training.run import prepare

    run = prepare(resolved, folder, _say, options.resume)
    _tell_built_in(resolved)
    if options.resume and (saved := checkpoint_steps(folder)):
        _say(f"resuming after step {saved[-1]:,}; the time below is that of all steps")
    _say(_forecast(run))
    last: Log | None = None
    try:
        with _watchers(resolved.settings.recipe.steps, folder, options) as watchers:
            for last in run.train(options.resume):
                for show in watchers:
                    show(last)
    except InterruptedRunError as error:
        _say(f"{error}; resume with: glassformer train --resume --out {shlex.quote(str(folder))}")
        return error.status
    if _is_first():
        _draw_curves(folder)
        _say("evaluating the model")
        _report_end(resolved.task, run, folder, last, json)
    return None


def _tell_built_in(resolved: "Resolved") -> None:
    """Say that a run without --data trains on the built-in data."""
    from glassformer.training.config import DEFAULT
    from glassformer.training.registry import TASKS

    if resolved.origins["data.path"] == DEFAULT:
        _say(f"data: the built-in {TASKS[resolved.task].built_in}; --data names other data")


def _forecast(run: "Run") -> str:
    """Size, memory and time of a run, before it starts."""
    from glassformer.training.estimate import readable, rough_duration

    needs, steps = run.estimate, run.settings.recipe.steps
    time = f"{steps:,} steps, about {rough_duration(needs.seconds)}"
    return f"{run.parameters:,} parameters, about {readable(needs.memory)} of memory beside the data, {time}"


def _new_folder(task: str, out: Path | None) -> Path:
    """The folder given, or the next free one."""
    if out is not None:
        return out
    if "RANK" in os.environ:
        raise UsageError("several processes share one run folder: give --out FOLDER")
    folder = next(path for number in count(1) if not (path := Path("runs") / f"{task}-{number}").exists())
    talk(f"run folder: {folder}")
    return folder


def _require_files(resolved: "Resolved") -> None:
    """Raise if a file named on the command line does not exist; built-in data has no file."""
    from glassformer.data.files import paths_in
    from glassformer.training.config import COMMAND_LINE
    from glassformer.training.registry import defaults, files_of
    from glassformer.training.schema import shown

    built_in = files_of(defaults(resolved.task))
    for key, value in files_of(resolved.settings).items():
        named = resolved.origins[key] == COMMAND_LINE and value != built_in[key]
        if named and (missing := [path for path in paths_in(value) if not path.exists()]):
            which = "" if str(missing[0]) == value else f" {missing[0]}"
            raise UsageError(f"{key} is {shown(value)}, but there is no such file or folder{which}")


@contextmanager
def _watchers(steps: int, folder: Path, options: RunOptions) -> Iterator["list[Callable[[Log], None]]"]:
    """Functions that show a log line: on the terminal and, if asked for, in TensorBoard; only in the first process."""
    from glassformer.cli.panel import panel
    from glassformer.training.tensorboard import tensorboard

    with ExitStack() as stack:
        watchers: list[Callable[[Log], None]] = []
        if _is_first() and options.tensorboard:
            record = stack.enter_context(tensorboard(folder / "tensorboard"))
            watchers.append(lambda log: record(vars(log)))
        if _is_first():
            watchers.append(stack.enter_context(panel(steps, progress=not options.no_progress)).update)
        yield watchers


def _draw_curves(folder: Path) -> None:
    """Draw the whole log, including the part before a resume."""
    from glassformer.charts import training_curves
    from glassformer.training.recorded_run import read_log
    from glassformer.training.run_folder import LOG, RunFolder

    records, damaged = read_log(folder)
    if damaged:
        talk(f"{folder / LOG}: {damaged} of {damaged + len(records)} lines are damaged and left out of the curves")
    RunFolder(folder).write_text("curves.svg", training_curves(records))


def _report_end(task: str, run: "Run", folder: Path, last: "Log | None", json: bool) -> None:
    from glassformer.cli.next_command import next_command
    from glassformer.views.panel import duration

    if last is None:
        talk(f"the run in {folder} is already finished")
    metrics = run.evaluate()
    if json:
        names = ("step", "loss", "validation", "tokens", "seconds", "note")
        found = {"task": task, "folder": str(folder), "parameters": run.parameters, "metrics": metrics}
        seen = {} if last is None else vars(last)
        write(msgspec.json.encode({**found, **{name: seen.get(name) for name in names}}).decode())
        return
    show_metrics(task, metrics)
    if last is not None:
        validation = "" if last.validation is None else f", validation loss {last.validation:.4f}"
        early = f" of {run.settings.recipe.steps:,}, stopped early" if last.step < run.settings.recipe.steps else ""
        write(f"{folder}: {last.step:,} steps{early}, loss {last.loss:.4f}{validation}, {duration(last.seconds)}")
        write(f"{folder}: {_kept(run, folder)}")
        if last.seconds >= WORTH_A_PLAN:
            try:
                talk(_beside_plan(run, last))
            except GlassformerError as error:  # the run is good without it
                talk(f"no plan stands beside this run: {error}")
    talk(f"next: {next_command(run.model, run.tokenizer, folder, task)}")


def _beside_plan(run: "Run", last: "Log") -> str:
    """Tokens per second of a run, and on a GPU the memory of its largest batch: planned and measured."""
    import torch

    from glassformer.data.packed_pairs import unpacked
    from glassformer.planning.example_batch import has_length
    from glassformer.planning.memory import required
    from glassformer.planning.plan import plan
    from glassformer.training.estimate import largest_batch, readable

    batch = unpacked(largest_batch(run.data.batches, run.objective))
    first, settings = batch[run.objective.inputs[0]], run.settings
    found = plan(
        run.model.config,
        device=run.device.device.type,
        batch=len(first),
        length=first.shape[-1] if has_length(run.model, run.objective) else None,
        dtype="bfloat16" if run.device.bf16 else "float32",
        optimizer=settings.recipe.optimizer,
        strategy=settings.run.strategy,
        devices=run.data.batches.world,
    )
    again = run.device.activation_checkpointing
    time, most = found.time_checkpointed if again else found.time, required(found.memory, found.workload, again)
    unit = "examples/s" if found.operations.tokens == found.workload.batch else "tokens/s"
    speed = f"{time.tokens_per_second:,.0f} {unit} planned, {last.speed:,.0f} measured"
    what = "plan of full training, without LoRA" if settings.lora.rank else "plan"
    if run.device.device.type != "cuda":
        return f"{what}: {speed}"
    peak = torch.cuda.max_memory_allocated(run.device.device)
    return f"{what}: {speed}; peak memory {readable(most)} planned, {readable(peak)} measured"


def _kept(run: "Run", folder: Path) -> str:
    """Which weights the model of a finished run has, and what they were evaluated in."""
    from glassformer.checkpoints.run_checkpoints import best_checkpoint

    averaged, best = run.settings.recipe.average_checkpoints, best_checkpoint(folder)
    which = "the last step" if best is None else f"step {best:,}, whose validation loss is the lowest"
    what = f"the mean of the last {averaged} checkpoints" if averaged > 1 else f"that of {which}"
    precision = run.device.precision
    computed = "" if precision == "float32" else f"; the table is computed in float32, the losses in {precision}"
    return f"the model is {what}{computed}"


def _show_plan(resolved: "Resolved", json: bool) -> None:
    """The settings and resources of a run; the text is valid TOML for --config."""
    from glassformer.training.config import tables, to_toml
    from glassformer.training.estimate import memory_of, readable, rough_duration
    from glassformer.training.fitting import fitting_of
    from glassformer.training.run import prepare
    from glassformer.training.run_folder import RunFolder

    run = prepare(resolved, None, _say, dry_run=True)
    _tell_built_in(resolved)
    kept, needs = (run.settings.run.keep_checkpoints, run.settings.recipe.average_checkpoints), run.estimate
    plan: dict[str, int | str] = {
        "device": str(run.device.device),
        "parameters": run.parameters,
        "tokens_per_step": run.tokens_per_step,
        "weights_bytes": needs.weights,
        "gradients_bytes": needs.gradients,
        "optimizer_bytes": needs.optimizer,
        "activations_bytes": needs.activations,
        "overhead_bytes": needs.overhead,
        "memory_bytes": needs.memory,
        "seconds": round(needs.seconds),
        "checkpoint_bytes": run.bytes_per_checkpoint,
        "disk_bytes": RunFolder("runs", max(kept)).room_needed(run.bytes_per_checkpoint),
    }
    if not _is_first():
        return
    if needs.memory > (room := memory_of(run.device.device)):
        fitting = fitting_of(run.settings, run.data, run.objective, run.model)
        _say(f"this run would be refused: it needs about {readable(needs.memory)} and {fitting.shortage(room)}")
    if json:
        write_json({"config": tables(run.resolved), "origins": run.resolved.origins, **plan})
        return
    write(to_toml(run.resolved, origins=True))
    for name, value in plan.items():
        number = f"{value:,}" if isinstance(value, int) else value
        megabytes = f"{value / MEGABYTE:,.1f} MB" if isinstance(value, int) and name.endswith("_bytes") else number
        shown = rough_duration(needs.seconds) if name == "seconds" else megabytes
        write(f"# {'time' if name == 'seconds' else name.removesuffix('_bytes').replace('_', ' ')}: {shown}")


def _say(text: str) -> None:
    """Print a message, from the first process only."""
    if _is_first():
        talk(text)


def _is_first() -> bool:
    return os.environ.get("RANK", "0") == "0"
