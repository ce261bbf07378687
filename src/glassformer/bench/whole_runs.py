"""Whole training runs as commands of their own, watched from outside: `glassformer train`, and nanoGPT's train.py.

Each run is a process of its own with empty caches of compiled code, so that compiling counts.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from glassformer.bench.measure import OURS, BenchError
from glassformer.bench.nanogpt import NANOGPT
from glassformer.bench.options import BenchOptions
from glassformer.bench.peers import MissingPeerError, folder_of
from glassformer.errors import ConfigError
from glassformer.training.run_folder import LOG

POLL = 0.02  # seconds between two looks at the log of a run
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
ITERATION = re.compile(r"iter (\d+): loss ([\d.]+)")
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
TRAIN = "glassformer train --no-progress --out run"
OUTPUT, ERRORS = "output.txt", "errors.txt"


@dataclass(frozen=True)
class Logged:
    """What a line of a run's log says: the loss of a training batch, or the validation loss, or both."""

    step: int
    loss: float | None
    validation: float | None


@dataclass(frozen=True)
class RunCommand:
    """A command, its folder, the file that it logs to, and how a line of that file is read."""

    command: list[str]
    folder: Path
    log: Path
    read: Callable[[str], Logged | None]


Start = Callable[[Path, BenchOptions], RunCommand]


def whole_runs(options: BenchOptions) -> dict[str, Start]:
    """The runs that are asked for, ours and nanoGPT's if it is there."""
    runs: dict[str, Start] = {name: _ours(words) for name, words in RUNS.items()}
    try:
        folder_of(NANOGPT, options.peers)
        runs[NANOGPT] = _nanogpt
    except MissingPeerError as error:
        if NANOGPT in options.only:
            raise ConfigError(f"only={NANOGPT}, but it cannot be measured: {error}") from None
        options.skip(f"{NANOGPT} is left out: {error}")
    named = set(options.only) & set(runs)
    return {name: start for name, start in runs.items() if not named or name in named}


def watch(start: Start, options: BenchOptions, seconds: float) -> Generator[tuple[float, Logged], None, None]:
    """Start a run in a folder of its own, and yield what it logs with the seconds since its command's start.

    It ends with the run, or ends the run when the time is over or the caller closes it.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        run = start(folder, options)
        caches, seen, taken = {key: str(folder / key.lower()) for key in CACHES}, 0, 0.0
        began = time.perf_counter()
        with _process(run, caches) as process:
            ended = False
            while not ended and taken < seconds:
                ended, lines = process.poll() is not None, _whole_lines(run.log)
                taken = time.perf_counter() - began
                for line in lines[seen:] if taken <= seconds else ():
                    if (found := run.read(line)) is not None:
                        yield taken, found
                seen = len(lines)
                time.sleep(0 if ended else POLL)


@contextmanager
def _process(run: RunCommand, more: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
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

    def start(folder: Path, options: BenchOptions) -> RunCommand:
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
        return RunCommand(command, folder, folder / "run" / LOG, _read_ours)

    return start


def _read_ours(line: str) -> Logged:
    log = json.loads(line)
    return Logged(log["step"], log["loss"], log["validation"])


def _nanogpt(folder: Path, options: BenchOptions) -> RunCommand:
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
    return RunCommand(command, copy, copy / OUTPUT, _read_nanogpt)


def _read_nanogpt(line: str) -> Logged | None:
    if found := STEP.match(line):
        return Logged(int(found[1]), None, float(found[2]))
    found = ITERATION.match(line)
    return Logged(int(found[1]), float(found[2]), None) if found else None
