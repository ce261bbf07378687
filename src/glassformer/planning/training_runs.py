"""The finished runs in run folders, as points of a scaling law, and why others are left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from glassformer.errors import CheckpointError, ConfigError, FitError, RunFolderError
from glassformer.layers.config import Config
from glassformer.models.registry import build
from glassformer.planning.fit import FinishedRun
from glassformer.planning.non_embedding import parameters_without_embeddings
from glassformer.training.begun import read_config
from glassformer.training.recorded_run import CONFIG, RecordedSettings, read_log, recorded_settings

TASKS = ("gpt", "masked")  # whose losses are nats per token of running text


class LastLine(msgspec.Struct, frozen=True):
    """What the last line of a run's log says about the whole of it."""

    tokens: int
    validation: float


@dataclass(frozen=True, kw_only=True)
class FoundRuns:
    """The finished runs in some folders, and why each other folder is left out."""

    runs: tuple[FinishedRun, ...]
    skipped: Mapping[str, str]

    @property
    def words(self) -> str:
        """How many runs were read and left out, with the reasons."""
        lines = [f"{len(self.runs)} finished {'run' if len(self.runs) == 1 else 'runs'} read"]
        if self.skipped:
            lines[0] += f", {len(self.skipped)} left out:"
        return "\n".join([*lines, *(f"  {name}: {why}" for name, why in self.skipped.items())])


def finished_runs(folders: Sequence[Path | str]) -> FoundRuns:
    """The final loss, the size and the data of each finished run.

    Losses along a run cannot be points of a law: before its end the learning rate has not decayed. Runs of different
    tasks or vocabularies cannot be compared, which is an error.
    """
    runs: list[FinishedRun] = []
    skipped: dict[str, str] = {}
    kinds: dict[str, str] = {}
    for folder in map(Path, folders):
        try:
            settings, config = _begun(folder)
            why = _unfit(folder, settings)
            if why:
                skipped[str(folder)] = why
                continue
            kinds.setdefault(_kind(settings, config), str(folder))
            runs.append(_point(folder, config))
        except (RunFolderError, CheckpointError, ConfigError) as error:
            skipped[str(folder)] = str(error).removeprefix(f"{folder}: ")
    if len(kinds) > 1:
        (one, where), (other, there), *_ = kinds.items()
        raise FitError(f"{where} is {one}, and {there} is {other}: their losses cannot be compared")
    return FoundRuns(runs=tuple(runs), skipped=skipped)


def _begun(folder: Path) -> tuple[RecordedSettings, Config]:
    """The settings a run was begun with, and the configuration of its model."""
    if not (folder / CONFIG).is_file():
        raise RunFolderError(f"{folder}: is not the folder of a training run, there is no {CONFIG} in it")
    return recorded_settings(folder), read_config(folder)


def _kind(settings: RecordedSettings, config: Config) -> str:
    """What the losses of a run are about: comparable runs have the same."""
    vocab = vars(config)["vocab"]
    return f"a run of {settings.task} with a vocabulary of {vocab:,}"


def _unfit(folder: Path, settings: RecordedSettings) -> str:
    """Why a run cannot be a point of a scaling law; empty if it can."""
    task, steps = settings.task, settings.recipe.steps
    if task not in TASKS:
        return f"a run of {task}; scaling laws are for running text: {' or '.join(TASKS)}"
    if settings.run.init:
        return f"began from {settings.run.init}, so its tokens are not all that it has learned from"
    records, _ = read_log(folder)
    last = records[-1].get("step") if records else 0
    if last != steps:
        return f"ended at step {last} of {steps}: before its last step a run's learning rate has not decayed"
    return "" if _final(records[-1]) else "its last step has no validation loss"


def _final(record: Mapping[str, object]) -> bool:
    return all(isinstance(record.get(name), int | float) for name in ("validation", "tokens"))


def _point(folder: Path, config: Config) -> FinishedRun:
    last = msgspec.convert(read_log(folder)[0][-1], LastLine)
    model = build(config, device="meta")
    return FinishedRun(
        parameters=parameters_without_embeddings(model), tokens=last.tokens, loss=last.validation, name=str(folder)
    )
