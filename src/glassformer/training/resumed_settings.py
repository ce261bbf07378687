"""The settings of a run that is resumed: what must be as it was begun, and what may differ."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from glassformer.errors import ConfigError
from glassformer.training.config import COMMAND_LINE, Resolved, differing_keys, resolve
from glassformer.training.recorded_run import CONFIG
from glassformer.training.registry import values_of
from glassformer.training.schema import as_toml, toml_value
from glassformer.training.settings import Settings
from glassformer.training.snapshots import STEPS
from glassformer.training.task import Report

PACKING = "data.packing"
MAY_DIFFER = ("run.device", "run.precision", "run.compile", "run.activation_checkpointing")


def resolve_resumed(
    folder: Path,
    task: str | None,
    preset: str | None,
    file: Path | str | None,
    words: Sequence[str],
    report: Report,
    origin: str = COMMAND_LINE,
) -> Resolved:
    """The settings of a stopped run; only its steps may grow, and what affects nothing but rounding may differ."""
    if not (folder / CONFIG).is_file():
        raise ConfigError(f"{folder} holds no run to resume: there is no {CONFIG} in it")
    saved = resolve(file=folder / CONFIG)
    alone = preset is None and file is None
    asked = resolve(task or saved.task, preset, folder / CONFIG if alone else file, words, origin)
    if asked.task != saved.task:
        raise ConfigError(f"{folder} holds a run of {saved.task}, not of {asked.task}")
    differing = differing_keys(saved, asked)
    saved = _with_more_steps(saved, asked, report) if STEPS in differing else saved
    kept = (STEPS, PACKING) if values_of(asked.settings).get(PACKING) == "auto" else (STEPS,)  # decided at the start
    differing = [key for key in differing if key not in kept]
    if wrong := [key for key in differing if key not in MAY_DIFFER]:
        other = ", ".join(wrong)
        raise ConfigError(f"{folder} was begun with another {other}; resume it without, or begin another run")
    if differing:
        what = f"{', '.join(differing)}: not as the run was begun"
        report(f"{what}; it goes on, and its numbers may be rounded differently")
    values = values_of(asked.settings)
    changed = replace(saved.settings.run, **{key.removeprefix("run."): values[key] for key in differing})
    return replace(saved, settings=replace(saved.settings, run=changed))


def _with_more_steps(saved: Resolved, asked: Resolved, report: Report) -> Resolved:
    """The settings of a run that goes on for more steps than it was begun with."""
    before, now = saved.settings.recipe, asked.settings.recipe
    if now.steps < before.steps:
        raise ConfigError(f"{STEPS} is {now.steps}, wanted at least {before.steps}, those the run was begun with")
    report(f"{STEPS} grows from {before.steps} to {now.steps}: the learning rate follows the longer schedule from here")
    settings = replace(saved.settings, recipe=replace(before, steps=now.steps))
    return replace(saved, settings=settings, origins={**saved.origins, STEPS: asked.origins[STEPS]})


def fixed_settings(settings: Settings) -> dict[str, str]:
    """The settings that must stay the same from the first step to the last, in the notation of TOML."""
    return {key: toml_value(as_toml(v)) for key, v in values_of(settings).items() if key not in MAY_DIFFER}
