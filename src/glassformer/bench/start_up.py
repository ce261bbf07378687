"""How long programs take to start: each is a process of its own."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from glassformer.bench.measure import OURS, Measurement, Runner, Step, TimedWork, measure
from glassformer.bench.options import BenchOptions
from glassformer.bench.peer_decoding import HUGGING_FACE
from glassformer.bench.peers import load_package

PYTHON, TORCH = "Python", "torch"
IMPORTS = {PYTHON: "pass", TORCH: "import torch", HUGGING_FACE: "import transformers"}


@dataclass(frozen=True)
class StartUpRow:
    """What is started, and whether imports of other libraries are measured beside it."""

    words: tuple[str, ...]
    beside: tuple[str, ...] = (PYTHON,)


ROWS = {
    "import": StartUpRow(("-c", "import glassformer"), (PYTHON, TORCH, HUGGING_FACE)),
    "build": StartUpRow(("-c", "import glassformer; glassformer.build"), (PYTHON, TORCH, HUGGING_FACE)),
    "help": StartUpRow(("-m", "glassformer", "help")),
    "equation": StartUpRow(("-m", "glassformer", "equations", "softmax")),
    "models": StartUpRow(("-m", "glassformer", "models")),
}


def start_up(options: BenchOptions) -> list[Measurement]:
    """Measure the start of programs."""
    found: list[Measurement] = []
    for name, row in ROWS.items():
        if not options.row(name, ROWS):
            continue
        candidates: dict[str, Callable[[], Runner]] = {OURS: partial(_runner, OURS, row.words)}
        for beside in row.beside:
            candidates[beside] = partial(_runner, beside, ("-c", IMPORTS[beside]))
        work = TimedWork(
            suite="start-up", name=name, unit="starts/s", amount=1, steps=1, warm_up=1 if options.tiny else 2
        )
        found += measure(work, options.runners(candidates), options.rounds, options.device.device, options.say)
    return found


def _runner(name: str, words: tuple[str, ...]) -> Runner:
    """A runner that starts a program and waits for its end."""
    if name == HUGGING_FACE:
        load_package("transformers")

    def step() -> None:
        subprocess.run([sys.executable, *words], check=True, capture_output=True)

    def start() -> Step:
        return step

    return Runner(name, start)
