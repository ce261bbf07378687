"""Run folders on this machine: which there are, their curves while they are written, and their checkpoints."""

from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from glassformer.checkpoints.run_checkpoints import best_checkpoint, checkpoint_steps, holds_run
from glassformer.errors import GlassformerError, PathError
from glassformer.training.recorded_run import read_log, recorded_settings

if TYPE_CHECKING:
    from glassformer.interface import LoadedModel

LoadStep: TypeAlias = "Callable[[Path, int], LoadedModel]"  # the model of a step of a run folder
RUNS = Path("runs")  # where `glassformer train` makes folders
POINTS = 4000  # of a curve, at most
MODELS = 3  # checkpoints that stay in memory
AT = "@"  # between a run folder and a step, in the name of a checkpoint


class RunSummary(msgspec.Struct, frozen=True):
    """A run folder in a list."""

    name: str
    task: str
    step: int
    steps: int
    loss: float | None
    checkpoints: int
    live: bool


class RunCurves(msgspec.Struct, frozen=True):
    """The log of a run: a row for each line, thinned where there are many; rows with a validation all stay."""

    steps: int
    rows: list[dict[str, object]]
    damaged: int


class Checkpoints(msgspec.Struct, frozen=True):
    """The steps of a run that have a checkpoint, and the name under which each is opened as a model."""

    steps: list[int]
    models: list[str]
    best: int | None


def list_runs(folders: Iterable[Path], live: Iterable[Path] = ()) -> list[RunSummary]:
    """The runs in these folders, which are run folders or hold some; those of the live trainings first."""
    found = [_summary(path, live=True) for path in live if holds_run(path)]
    for folder in folders:
        inside = sorted(folder.iterdir()) if folder.is_dir() and not holds_run(folder) else [folder]
        found += [_summary(path, live=False) for path in inside if path.is_dir() and holds_run(path)]
    return found


def run_folder(name: str) -> Path:
    """The run folder of this name, or an error."""
    folder = Path(name)
    if not name or not folder.is_dir() or not holds_run(folder):
        raise PathError(f"{name or 'an empty name'}: is not the folder of a run; it would hold a model.json")
    return folder


def run_curves(name: str) -> RunCurves:
    """The curves of a run, also while it is trained."""
    folder = run_folder(name)
    records, damaged = read_log(folder)
    every = max(len(records) // POINTS, 1)
    kept = [row for n, row in enumerate(records) if n % every == 0 or row.get("validation") is not None]
    return RunCurves(_settings(folder)[1], kept, damaged)


def run_checkpoints(name: str) -> Checkpoints:
    """The checkpoints of a run."""
    folder = run_folder(name)
    steps = checkpoint_steps(folder)
    return Checkpoints(steps, [f"{folder}{AT}{step}" for step in steps], best_checkpoint(folder))


def split_checkpoint(name: str) -> tuple[Path, int] | None:
    """The folder and the step of a checkpoint such as `runs/gpt-1@200`; None for any other name."""
    folder, _, step = name.rpartition(AT)
    return (Path(folder), int(step)) if folder and step.isdecimal() and holds_run(Path(folder)) else None


class CheckpointModels:
    """Models of checkpoints by their names, the last few of them kept."""

    def __init__(self, load: LoadStep) -> None:
        self._load = lru_cache(MODELS)(load)

    def open(self, name: str) -> "LoadedModel | None":
        """The model of a checkpoint such as `runs/gpt-1@200`, or None if that is not the name of one."""
        found = split_checkpoint(name)
        return None if found is None else self._load(*found)


def _summary(folder: Path, live: bool) -> RunSummary:
    records, _ = read_log(folder)
    last = records[-1] if records else {}
    task, steps = _settings(folder)
    loss, step = last.get("loss"), last.get("step")
    return RunSummary(
        name=str(folder),
        task=task,
        step=step if isinstance(step, int) else 0,
        steps=steps,
        loss=loss if isinstance(loss, float) else None,
        checkpoints=len(checkpoint_steps(folder)),
        live=live,
    )


def _settings(folder: Path) -> tuple[str, int]:
    """The task of a run and its steps, as far as its settings can be read."""
    try:
        found = recorded_settings(folder)
    except GlassformerError:
        return "", 0
    return found.task, found.recipe.steps
