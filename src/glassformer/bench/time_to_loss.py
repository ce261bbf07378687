"""Seconds from a command's start to a validation loss: `glassformer train`, and nanoGPT's own train.py beside it.

Each run is a process of its own with empty caches of compiled code, so that compiling counts.
"""

import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from glassformer.bench.measure import OURS, BenchError, Measurement
from glassformer.bench.nanogpt import NANOGPT
from glassformer.bench.options import BenchOptions
from glassformer.bench.peers import MissingPeerError, folder_of
from glassformer.training.run_folder import LOG

POLL = 0.02  # seconds between two looks at the log of a run
PATIENCE = 3600.0  # seconds after which a run is given up, unless `seconds` says otherwise
MODERN = f"{OURS}, modern with Muon"
RUNS = {  # the words after `glassformer train` for each of our runs; those of recipes/shakespeare.toml, in fewer steps
    OURS: (
        "gpt data.validation_fraction=0.1 data.batch_size=64 data.max_length=256 tokenizer.kind=characters "
        "tokenizer.vocab_size=8000 model.family=gpt model.context=256 model.dim=384 model.layers=6 model.heads=6 "
        "model.dropout=0.2 recipe.steps=1800 recipe.learning_rate=1e-3 recipe.warmup_steps=100 "
        "recipe.min_lr_ratio=0.1 recipe.betas=[0.9,0.99] recipe.weight_decay=0.1 recipe.log_every=50 "
        "recipe.evaluate_every=100 recipe.save_every=1000"
    )
}
RUNS[MODERN] = (
    RUNS[OURS].replace("family=gpt", "family=modern").replace("dropout=0.2", "dropout=0.3")
    + " recipe.optimizer=muon recipe.learning_rate=3e-3 recipe.schedule=stable recipe.ema_decay=0.995"
    + " recipe.warmup_steps=50 recipe.steps=1100 recipe.evaluate_every=50"
)
TINY = "model.dim=16 model.layers=1 model.heads=2 recipe.steps=4 recipe.warmup_steps=1 recipe.evaluate_every=2"
STEP = re.compile(r"step (\d+): train loss [\d.]+, val loss ([\d.]+)")
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
TRAIN = "glassformer train --no-progress --out run"
OUTPUT, ERRORS = "output.txt", "errors.txt"

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
        raise BenchError("until and data go together: the validation loss to reach, and the text to train on")
    runs: dict[str, Start] = {name: _ours(words) for name, words in RUNS.items()}
    try:
        folder_of(NANOGPT, options.peers)
        runs[NANOGPT] = _nanogpt
    except MissingPeerError as error:
        options.skip(f"{NANOGPT} is left out: {error}")
    named = set(options.only) & set(runs)
    found: dict[str, list[_Reached]] = {name: [] for name in runs if not named or name in named}
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


@dataclass(frozen=True)
class _Run:
    """A command, its folder, the file that it logs to, and how a line of that file is read."""

    command: list[str]
    folder: Path
    log: Path
    read: Callable[[str], Validation | None]


Start = Callable[[Path, BenchOptions], _Run]


def _timed(start: Start, options: BenchOptions, until: float) -> _Reached:
    """Start a run in a folder of its own, and stop it once it has reached the loss."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        run = start(folder, options)
        caches = {key: str(folder / key.lower()) for key in CACHES}
        began, best, seen, seconds = time.perf_counter(), (0, math.inf), 0, 0.0
        with _process(run, caches) as process:
            while best[1] > until and seconds < (options.seconds or PATIENCE):
                ended, lines = process.poll() is not None, _whole_lines(run.log)
                seconds = time.perf_counter() - began
                best = min((best, *filter(None, map(run.read, lines[seen:]))), key=lambda found: found[1])
                seen = len(lines)
                if ended:
                    break
                time.sleep(POLL)
        return _Reached(seconds, best, best[1] <= until)


@contextmanager
def _process(run: _Run, more: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A running command, which is ended when the block is left."""
    out, errors = run.folder / OUTPUT, run.folder / ERRORS
    with out.open("w", encoding="utf-8") as output, errors.open("w", encoding="utf-8") as said:
        process = subprocess.Popen(
            run.command, cwd=run.folder, env={**os.environ, **more}, stdout=output, stderr=said, text=True
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
    if process.returncode > 0:
        lines = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise BenchError(f"{' '.join(run.command[1:4])}: exit status {process.returncode}: {(lines or ['?'])[-1]}")


def _whole_lines(path: Path) -> list[str]:
    """The lines of a file that are written to their end."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()


def _ours(words: str) -> Start:
    """A run of `glassformer train` whose log is watched."""

    def start(folder: Path, options: BenchOptions) -> _Run:
        assert options.data is not None
        device = options.device
        settings = {
            "data.path": str(options.data.resolve()),
            "run.device": str(device.device),
            "run.compile": {None: "auto", True: "yes", False: "no"}[device.compile],
            "run.precision": "bfloat16" if device.bf16 else "float32",
        }
        more = [*words.split(), *(f"{key}={value}" for key, value in settings.items())]
        more += TINY.split() if options.tiny else []
        command = [sys.executable, "-m", *TRAIN.split(), *more]
        return _Run(command, folder, folder / "run" / LOG, _read_ours)

    return start


def _read_ours(line: str) -> Validation | None:
    log = json.loads(line)
    return None if log["validation"] is None else (log["step"], log["validation"])


def _nanogpt(folder: Path, options: BenchOptions) -> _Run:
    """nanoGPT's own train.py with its own configuration, on data that its own script prepares, in a copy of it."""
    assert options.data is not None
    copy = folder / NANOGPT
    shutil.copytree(folder_of(NANOGPT, options.peers), copy)
    data = copy / "data" / "shakespeare_char"
    shutil.copy(options.data, data / "input.txt")
    (data / "requests.py").touch()  # it imports this to fetch the text, which is there
    made = subprocess.run([sys.executable, data / "prepare.py"], capture_output=True, text=True, check=False)
    if made.returncode:
        raise BenchError(f"{NANOGPT}: its data cannot be prepared: {made.stderr.strip().splitlines()[-1]}")
    device = options.device.device.type
    settings: dict[str, str | int] = {"device": device, "compile": str(device == "cuda")}
    if options.tiny:
        sizes = {"n_layer": 1, "n_head": 1, "n_embd": 8, "block_size": 8, "batch_size": 2}
        settings |= {**sizes, "max_iters": 4, "eval_interval": 2, "eval_iters": 2}
    if device == "cpu":
        settings["dtype"] = "float32"  # its default there is float16
    words = [f"{'-' * 2}{key}={value}" for key, value in settings.items()]
    command = [sys.executable, "-u", "train.py", "config/train_shakespeare_char.py", *words]
    return _Run(command, copy, copy / OUTPUT, _read_nanogpt)


def _read_nanogpt(line: str) -> Validation | None:
    found = STEP.search(line)
    return (int(found[1]), float(found[2])) if found else None
