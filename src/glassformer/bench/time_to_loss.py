"""Seconds from a command's start to a validation loss: `glassformer train`, and nanoGPT's own train.py beside it."""

import math
import statistics
from contextlib import closing
from dataclasses import dataclass

from glassformer.bench.measure import OURS, Measurement
from glassformer.bench.options import BenchOptions
from glassformer.bench.whole_runs import Start, watch, whole_runs
from glassformer.errors import ConfigError

PATIENCE = 3600.0  # seconds after which a run is given up, unless `seconds` says otherwise
Validation = tuple[int, float]  # a step, and its validation loss


@dataclass(frozen=True)
class _Reached:
    """When a run reached the loss, or how far it came."""

    seconds: float
    best: Validation
    done: bool


def time_to_loss(options: BenchOptions) -> list[Measurement]:
    """Seconds to the loss that is asked for, for ours, ours with Muon, and nanoGPT, in turns."""
    if options.until is None or options.data is None:
        raise ConfigError("until and data go together: the validation loss to reach, and the text to train on")
    runs = whole_runs(options)
    found: dict[str, list[_Reached]] = {name: [] for name in runs}
    for round in range(options.rounds):
        for name, all_reached in found.items():
            options.say(f"until {options.until}: {name}: run {round + 1} of {options.rounds}")
            reached = _timed(runs[name], options, options.until)
            all_reached.append(reached)
            how = "reached" if reached.done else "NOT reached"
            options.say(f"{how} after {reached.seconds:.1f} s: step {reached.best[0]}, loss {reached.best[1]:.4f}")
    return _measurements(found, options)


def _measurements(found: dict[str, list[_Reached]], options: BenchOptions) -> list[Measurement]:
    """A row for each run that reached the loss every time."""
    rows: list[Measurement] = []
    for name, reached in found.items():
        if not all(each.done for each in reached):
            best = min(loss for each in reached for _, loss in [each.best])
            options.skip(f"{name} did not reach {options.until}: its best validation loss is {best:.4f}")
            continue
        taken = [each.seconds for each in reached]
        median, (step, loss) = statistics.median(taken), reached[0].best
        row = Measurement(
            suite="small", row="until", runner=name, unit="runs/hour", rate=3600 / median, milliseconds=1000 * median,
            spread=(max(taken) - min(taken)) / median, rounds=taken,
        )  # fmt: skip
        row.note = f"{median:.1f} s from the command's start to {loss:.4f} on the validation text, at step {step}"
        rows.append(row)
    ours = next((row for row in rows if row.runner == OURS), None)
    for row in rows:
        if ours is not None and row is not ours:
            row.ratio = row.milliseconds / ours.milliseconds
    return rows


def _timed(start: Start, options: BenchOptions, until: float) -> _Reached:
    """Start a run, and stop it once it has reached the loss."""
    best, seconds = (0, math.inf), 0.0
    with closing(watch(start, options, options.seconds or PATIENCE)) as logged:
        for taken, line in logged:
            seconds = taken
            if line.validation is not None and line.validation < best[1]:
                best = line.step, line.validation
            if best[1] <= until:
                break
    return _Reached(seconds, best, best[1] <= until)
