"""Step time and peak memory of our GPT training step by context, width and batch, and a chart of them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from glassformer.bench.language_models import GPT2, GPT2_RECIPE
from glassformer.bench.measure import Measurement, TimedWork, measure, release
from glassformer.bench.options import BenchOptions
from glassformer.bench.our_training import our_runner
from glassformer.charts import Curve, Panel, panels
from glassformer.data.packed_batches import PackedBatches
from glassformer.models.gpt import GPTConfig
from glassformer.training.objective import NEXT_TOKEN

ROWS = {"context": "tokens in a row", "width": "model.dim", "batch": "rows"}
SECONDS = 120.0  # of the suite, unless `seconds` says otherwise: every shape is compiled anew
STEPS, WARM_UP = 2, 5  # after three steps of a shape a CUDA graph is captured


@dataclass(frozen=True, kw_only=True)
class Sweeps:
    """A model, the tokens of a step, and the values of each row; the most telling first, in case time runs out."""

    model: GPTConfig
    tokens: int
    context: tuple[int, ...]
    width: tuple[int, ...]
    batch: tuple[int, ...]


_SMALL = GPTConfig(vocab=256, context=128, dim=64, layers=2, heads=2, activation="gelu")
GPU = Sweeps(
    model=GPT2, tokens=32_768, context=(1024, 32_768, 512, 8192, 16_384, 2048), width=(768, 1536, 384, 1152),
    batch=(32, 128, 2, 8),
)  # fmt: skip
CPU = Sweeps(
    model=_SMALL, tokens=1024, context=(128, 1024, 32, 512, 256, 64), width=(64, 256, 32, 128), batch=(8, 32, 2, 16)
)
TINY = Sweeps(model=replace(_SMALL, context=8, dim=16), tokens=16, context=(8, 16), width=(16, 32), batch=(2, 4))

Shape = tuple[GPTConfig, int]  # a model, and the rows of its batches


def shapes(options: BenchOptions) -> list[Measurement]:
    """Measure the points of every row, as long as there is time; a point that rows share is measured once."""
    sizes = TINY if options.tiny else GPU if options.device.device.type == "cuda" else CPU
    wanted = _points(sizes, [row for row in ROWS if options.row(row, ROWS)])
    limit, began, last = options.seconds or SECONDS, time.perf_counter(), 0.0
    found: dict[Shape, Measurement] = {}
    for shape, names in wanted.items():
        taken = time.perf_counter() - began
        if found and taken + last > limit:
            options.skip(f"{' and '.join(names)} left out: {taken:.0f} of {limit:.0f} seconds are over")
            continue
        try:
            found[shape] = _measure(names[0], shape, options)
        except torch.OutOfMemoryError:
            options.skip(f"{' and '.join(names)} left out: it does not fit into the memory of the device")
        release(options.device.device)
        last = time.perf_counter() - began - taken
    rows = [replace(found[shape], row=name) for shape, names in wanted.items() for name in names if shape in found]
    order = [*ROWS]
    return sorted(rows, key=lambda row: (order.index(_row(row)), _value(row)))


def _points(sizes: Sweeps, rows: Sequence[str]) -> dict[Shape, list[str]]:
    """The shapes to measure with the names of their points; the rows take turns."""
    model, batch = sizes.model, sizes.tokens // sizes.model.context
    head_dim = model.dim // model.heads
    make: dict[str, Callable[[int], Shape]] = {
        "context": lambda n: (replace(model, context=n), sizes.tokens // n),
        "width": lambda n: (replace(model, dim=n, heads=n // head_dim), batch),
        "batch": lambda n: (model, n),
    }
    values = {"context": sizes.context, "width": sizes.width, "batch": sizes.batch}
    found: dict[Shape, list[str]] = {}
    for turn in range(max(map(len, values.values()))):
        for row in rows:
            for n in values[row][turn : turn + 1]:
                found.setdefault(make[row](n), []).append(f"{row} {n}")
    return found


def _measure(name: str, shape: Shape, options: BenchOptions) -> Measurement:
    """Time and memory of the training step of one shape."""
    model, rows = shape
    count = (STEPS * options.rounds + 2 * WARM_UP) * rows * model.context + 1
    tokens = np.random.default_rng(options.seed).integers(model.vocab, size=count, dtype=np.uint16)

    def batches() -> PackedBatches:
        return PackedBatches(tokens, rows, model.context, seed=options.seed)

    work = TimedWork(
        suite="shapes", name=name, unit="tokens/s", amount=rows * model.context, steps=STEPS, warm_up=WARM_UP
    )
    runner = our_runner(model, batches, NEXT_TOKEN, GPT2_RECIPE, options.device)
    [found] = measure(work, [runner], options.rounds, options.device.device, options.say)
    return found


def shapes_chart(found: Sequence[Measurement], device: str) -> str:
    """An SVG picture: for each row the milliseconds of a step, and the peak memory where it was measured."""
    plots: list[Panel] = []
    for row, what in ROWS.items():
        points = [each for each in found if _row(each) == row]
        times = [(_value(each), each.milliseconds) for each in points]
        peaks = [(_value(each), each.peak_gigabytes) for each in points if each.peak_gigabytes is not None]
        title = f"{row} ({what})"
        if times:
            plots.append(Panel(f"ms a step by {title}", [Curve("step", "one", times, marked=True)]))
        if peaks:
            plots.append(Panel(f"peak memory in GB by {title}", [Curve("peak", "two", peaks, marked=True)]))
    return panels(f"Training step of a GPT on {device}", plots)


def _row(point: Measurement) -> str:
    return point.row.partition(" ")[0]


def _value(point: Measurement) -> int:
    return int(point.row.partition(" ")[2])
