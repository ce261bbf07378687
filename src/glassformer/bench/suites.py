"""Every suite by name, and what a benchmark reports."""

import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

import torch

from glassformer import __version__
from glassformer.bench.calls import ROWS as CALLS
from glassformer.bench.calls import calls
from glassformer.bench.decoding import PEERS, decoding
from glassformer.bench.decoding import ROWS as DECODING
from glassformer.bench.language_models import SUITES as LANGUAGE_MODELS
from glassformer.bench.language_models import language_models
from glassformer.bench.measure import OURS, Measurement
from glassformer.bench.memory import ROWS as MEMORY
from glassformer.bench.memory import memory
from glassformer.bench.nanogpt import NANOGPT, NANOGPT_BIASES, NANOGPT_COMPILED
from glassformer.bench.options import BenchOptions, require_known
from glassformer.bench.peer_decoding import HUGGING_FACE
from glassformer.bench.peer_gpt2 import X_TRANSFORMERS
from glassformer.bench.shapes import ROWS as SHAPES
from glassformer.bench.shapes import shapes
from glassformer.bench.sparse import PATTERNS, sparse
from glassformer.bench.sparse import ROWS as SPARSE
from glassformer.bench.start_up import IMPORTS, start_up
from glassformer.bench.start_up import ROWS as START_UP
from glassformer.bench.time_to_loss import time_to_loss
from glassformer.bench.translators import ROWS as TRANSLATORS
from glassformer.bench.translators import TORCH, translators
from glassformer.bench.whole_runs import RUNS
from glassformer.errors import ConfigError


@dataclass(frozen=True)
class Suite:
    """What a suite measures, the names of its rows and of who runs them, and on which kind of device it runs."""

    run: Callable[[BenchOptions], list[Measurement]]
    rows: tuple[str, ...]
    runners: tuple[str, ...]
    device: str | None = None


def _small(options: BenchOptions) -> list[Measurement]:
    """Steps of small models, or with a loss to reach whole runs."""
    timed = options.until is not None or options.data is not None
    return time_to_loss(options) if timed else language_models("small", options)


GPT2_RUNNERS = (OURS, NANOGPT, NANOGPT_BIASES, HUGGING_FACE, X_TRANSFORMERS)
CPU_RUNNERS = (OURS, NANOGPT, NANOGPT_BIASES, NANOGPT_COMPILED, X_TRANSFORMERS)
SUITES: dict[str, Suite] = {
    "train": Suite(partial(language_models, "train"), (*LANGUAGE_MODELS["train"],), GPT2_RUNNERS),
    "small": Suite(_small, (*LANGUAGE_MODELS["small"],), (NANOGPT, *RUNS)),
    "translate": Suite(translators, (*TRANSLATORS,), (OURS, TORCH)),
    "decode": Suite(decoding, (*DECODING,), PEERS),
    "cpu": Suite(partial(language_models, "cpu"), (*LANGUAGE_MODELS["cpu"],), CPU_RUNNERS, "cpu"),
}

SUITES |= {
    "shapes": Suite(shapes, (*SHAPES,), ()),
    "memory": Suite(memory, MEMORY, (*GPT2_RUNNERS, TORCH)),
    "start-up": Suite(start_up, (*START_UP,), (*IMPORTS,), "cpu"),
    "calls": Suite(calls, CALLS, ()),
    "sparse": Suite(sparse, (*SPARSE,), PATTERNS),
}


@dataclass(frozen=True, kw_only=True)
class BenchReport:
    """What was measured, on what, and what was left out."""

    suite: str
    date: str
    glassformer: str
    torch: str
    python: str
    device: str
    threads: int
    bf16: bool
    compiled: bool
    rounds: int
    seed: int
    rows: list[Measurement]
    skipped: list[str] = field(default_factory=list)


def run_suite(name: str, options: BenchOptions) -> BenchReport:
    """Run a suite."""
    suite, device = SUITES[name], options.device
    require_known(options.only, (*suite.rows, *suite.runners))
    if suite.device is not None and device.device.type != suite.device:
        raise ConfigError(f"{name} runs on {suite.device}, and device is {device.device}")
    if name != "small" and (options.until is not None or options.data is not None):
        raise ConfigError("until and data are for the suite small")
    if options.seconds is not None and name != "shapes" and options.until is None:
        raise ConfigError("seconds is for the suite shapes, and for small with until")
    for lacking in _lacking(options):
        options.skip(lacking)
    rows = suite.run(options)
    return BenchReport(
        suite=name, date=time.strftime("%Y-%m-%d"), glassformer=__version__, torch=torch.__version__,
        python=platform.python_version(), device=device_name(device.device), threads=torch.get_num_threads(),
        bf16=device.bf16, compiled=device.compile is not False, rounds=options.rounds, seed=options.seed, rows=rows,
        skipped=options.skipped,
    )  # fmt: skip


def _lacking(options: BenchOptions) -> Iterable[str]:
    """What this device cannot do, in a line each."""
    device = options.device
    if not device.bf16:
        yield f"{device.device} is not fast in bfloat16: everything runs in float32"
    if device.device.type == "cpu":
        yield "no CUDA device: memory is not measured, and nothing of ours is compiled unless asked"


def device_name(device: torch.device) -> str:
    """The name of a device as its maker gives it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {platform.machine()}, {torch.get_num_threads()} threads"
