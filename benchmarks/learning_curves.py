"""Loss against seconds: a GPT of characters with AdamW, `modern` with Muon, and nanoGPT's own training.

`python -m benchmarks.learning_curves --text data/tinyshakespeare/input.txt --peers peers --json curves.json --svg
curves.svg` trains one after the other, each as a command of its own with empty caches of compiled code, for at most
`--seconds`, or until its validation loss has not improved for `--patience` seconds and two validations. The clock
starts with the command, so compiling counts. Training losses are those of single batches, with dropout; ours validates
on all held-out text, nanoGPT on 200 random batches of it. `--tiny` tries it on a CPU.
"""

import argparse
import json
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from glassformer import __version__
from glassformer.bench.measure import OURS, BenchError
from glassformer.bench.options import BenchOptions
from glassformer.bench.suites import device_name
from glassformer.bench.whole_runs import MODERN, RUNS, Logged, Start, watch, whole_runs
from glassformer.charts import Curve, Panel, panels
from glassformer.training.device import choose_device

STYLES = {OURS: "one", MODERN: "two"}  # nanoGPT is drawn in the third
SHOWN = 1.0  # nats above the best validation loss, where the plots end
HEIGHT = 240
FEWEST = 2  # validations without improvement before a run is ended


@dataclass
class LearningCurve:
    """What a run logged with the seconds since its start, its best validation, and why it ended."""

    runner: str
    records: list[dict[str, float | None]] = field(default_factory=list)
    best: float | None = None
    best_step: int | None = None
    best_seconds: float | None = None
    ended: str = "the run was finished"

    def add(self, seconds: float, logged: Logged) -> None:
        """Record a line of the log."""
        self.records.append({"seconds": round(seconds, 3)} | asdict(logged))
        if logged.validation is not None and (self.best is None or logged.validation < self.best):
            self.best, self.best_step, self.best_seconds = logged.validation, logged.step, seconds

    def improves(self, seconds: float, patience: float) -> bool:
        """Whether the last improvement of the validation loss is less than `patience` ago, or few validations."""
        if self.best_step is None or self.best_seconds is None:
            return True
        later = [each for each in self.records if each["validation"] is not None and _step(each) > self.best_step]
        return len(later) < FEWEST or seconds - self.best_seconds < patience

    def points(self, key: str) -> list[tuple[float, float]]:
        """Seconds and the values of a key, where there are any."""
        found = [(each["seconds"], each[key]) for each in self.records]
        return [(x, y) for x, y in found if x is not None and y is not None and math.isfinite(y)]


def _step(record: Mapping[str, float | None]) -> float:
    return record["step"] or 0


def learning_curve(name: str, start: Start, options: BenchOptions, seconds: float, patience: float) -> LearningCurve:
    """Run a command for so many seconds, or until it no longer improves; a run that fails says why."""
    found, began = LearningCurve(name), time.perf_counter()
    try:
        with closing(watch(start, options, seconds)) as lines:
            for taken, logged in lines:
                began = time.perf_counter() - taken
                found.add(taken, logged)
                if not found.improves(taken, patience):
                    found.ended = f"no improvement for {patience:g} s"
                    return found
        if time.perf_counter() - began >= seconds:
            found.ended = f"{seconds:g} s were over"
    except BenchError as error:
        found.ended = f"failed: {error}"
    return found


def curves_chart(curves: Sequence[LearningCurve]) -> str:
    """An SVG picture of the validation losses and of the training losses against seconds."""
    best = min((each.best for each in curves if each.best is not None), default=0.0)
    plots: list[Panel] = []
    for key, title in (("validation", "validation loss"), ("loss", "training loss")):  # short: names stand beside it
        drawn = [
            Curve(each.runner, STYLES.get(each.runner, "three"), points, marked=key == "validation")
            for each in curves
            if (points := [(x, y) for x, y in each.points(key) if y <= best + SHOWN])
        ]
        lowest = min((y for curve in drawn for _, y in curve.points), default=0.0)
        plots.append(Panel(title, drawn, low=0.99 * lowest, height=HEIGHT))
    return panels("Loss against seconds since the start of each command", plots)


def main(words: Sequence[str] | None = None) -> int:
    """Train each, print how far it came, and write the curves after every run."""
    given = _arguments(words)
    device = choose_device(given.device, "auto", "auto")
    options = BenchOptions(
        say=lambda text: print(text, flush=True), device=device, peers=given.peers, only=tuple(given.only),
        tiny=given.tiny, data=given.text,
    )  # fmt: skip
    curves: list[LearningCurve] = []
    for name, start in whole_runs(options).items():
        curves.append(found := learning_curve(name, start, options, given.seconds, given.patience))
        best = "no validation" if found.best is None else f"best {found.best:.4f} after {found.best_seconds:.1f} s"
        print(f"{name}: {best}, at step {found.best_step}; {found.ended}", flush=True)
        report = {
            "date": time.strftime("%Y-%m-%d"), "glassformer": __version__, "torch": torch.__version__,
            "device": device_name(device.device), "seconds": given.seconds, "patience": given.patience,
            "runs": [asdict(each) for each in curves], "skipped": options.skipped,
        }  # fmt: skip
        given.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        given.svg.write_text(curves_chart(curves), encoding="utf-8")
    return int(any(each.best is None for each in curves))


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--text", type=Path, required=True, help="the text to train on: Tiny Shakespeare")
    parser.add_argument("--peers", type=Path, help="a folder with a copy of nanoGPT, whose code is run")
    parser.add_argument("--seconds", type=float, default=60, help="the most for each run")
    parser.add_argument("--patience", type=float, default=12, help="seconds without improvement that end a run")
    parser.add_argument("--json", type=Path, default=Path("learning-curves.json"))
    parser.add_argument("--svg", type=Path, default=Path("learning-curves.svg"))
    parser.add_argument("--only", action="append", default=[], choices=[*RUNS, "nanoGPT"], help="only this run")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tiny", action="store_true", help="the smallest models, in seconds")
    return parser.parse_args(words)


if __name__ == "__main__":
    raise SystemExit(main())
