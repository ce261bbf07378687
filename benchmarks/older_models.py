"""What attention buys: an RNN, an LSTM and a Transformer of equal size on the copy task, on a CPU.

python benchmarks/older_models.py [--gaps 10 50 100 200] [--seeds 0 1 2] [--updates 1000] [--processes 2]

Prints how many symbols each recalls by gap, the seconds of a training step by length, and the norm of the gradient
that reaches the first symbol, before and after training. Every run is one thread; a line on standard error tells of
each as it ends.
"""

import argparse
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing import get_context

import torch

from glassformer.course.copy_task import NAMES, CopyTask, contestants, fresh, gradient_by_position, training
from glassformer.models.gpt import GPTConfig

RATES = {"RNN": (1e-3, 3e-3), "LSTM": (3e-3, 1e-2), "Transformer": (1e-3, 3e-3)}  # the better one is reported
TIMED_LENGTHS, TIMED_STEPS = (64, 256, 1024), 3


@dataclass(frozen=True)
class Run:
    """One training run: a model, a gap, a seed and a learning rate."""

    name: str
    gap: int
    seed: int
    rate: float
    updates: int


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    run: Run
    parameters: int
    accuracy: float
    seconds: float
    reached: tuple[float, float]  # gradient at the first symbol over that at the question, before and after training


def outcome(run: Run) -> Outcome:
    """Train one model."""
    torch.set_num_threads(1)
    task = CopyTask(run.gap)
    model = fresh(contestants(task)[run.name], run.seed)
    before, began = first_over_question(run, model), time.perf_counter()
    for _ in training(model, task, run.updates, run.rate, seed=run.seed):
        pass
    seconds = (time.perf_counter() - began) / run.updates
    after = first_over_question(run, model)
    return Outcome(run, model.parameter_count(), task.accuracy(model), seconds, (before, after))


def first_over_question(run: Run, model: object) -> float:
    """How much of the gradient of the first recalled symbol reaches where it was read."""
    task = CopyTask(run.gap)
    norms = gradient_by_position(model, task)  # pyright: ignore[reportArgumentType]
    return float(norms[0] / norms[task.remembered + task.gap].clamp_min(1e-30))


def step_seconds(name: str, length: int, device: str) -> float:
    """The least seconds of a training step on rows of this length, by models of the same size."""
    torch.set_num_threads(1)
    task, config = CopyTask(length - 8), contestants(CopyTask(TIMED_LENGTHS[0]))[name]
    model = fresh(replace(config, context=length) if isinstance(config, GPTConfig) else config, 0).to(device)
    steps, times = training(model, task, TIMED_STEPS + 1, 1e-3, rows=4), []
    for _ in islice(steps, 1):
        pass
    for _ in range(TIMED_STEPS):
        began = time.perf_counter()
        next(steps)
        times.append(time.perf_counter() - began)
    return min(times)


def outcomes(runs: list[Run], processes: int) -> list[Outcome]:
    """What came of all runs, each told as it ends."""
    found: list[Outcome] = []
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        for done in as_completed([pool.submit(outcome, run) for run in runs]):
            found.append(each := done.result())
            how = f"{each.run.name}, gap {each.run.gap}, rate {each.run.rate:g}, seed {each.run.seed}"
            spent = f"{each.seconds * each.run.updates:.0f} s"
            print(f"{len(found)} of {len(runs)}: {how}: {each.accuracy:.1%} in {spent}", file=sys.stderr, flush=True)
    return found


def main(given: argparse.Namespace) -> None:
    """Three tables."""
    runs = [
        Run(name, gap, seed, rate, given.updates)
        for gap in sorted(given.gaps, reverse=True)  # the longest first
        for name in NAMES
        for rate in RATES[name]
        for seed in given.seeds
    ]
    found = outcomes(runs, given.processes)
    recalled, reached = "recalled, mean of seeds (least to most)", "gradient at the first symbol over the question's"
    print(f"| gap | model | parameters | {recalled} | {reached}: fresh | trained | ms a step |\n{'| --- ' * 7}|")
    for gap in given.gaps:
        for name in NAMES:
            print(row(gap, name, [each for each in found if (each.run.gap, each.run.name) == (gap, name)]), flush=True)
    print(f"| model | {' | '.join(f'{length} tokens' for length in TIMED_LENGTHS)} |\n{'| --- ' * 4}|")
    for name in NAMES:
        print(
            "|",
            name,
            "|",
            *(f"{1e3 * step_seconds(name, length, given.device):.0f} ms |" for length in TIMED_LENGTHS),
            flush=True,
        )


def row(gap: int, name: str, found: list[Outcome]) -> str:
    """The seeds of the better learning rate, as a row of a table."""
    rates = {each.run.rate: [] for each in found}
    for each in found:
        rates[each.run.rate].append(each)
    best = max(rates.values(), key=lambda group: statistics.mean(each.accuracy for each in group))
    accuracies = [each.accuracy for each in best]
    spread = f"{statistics.mean(accuracies):.1%} ({min(accuracies):.1%} to {max(accuracies):.1%})"
    reached = [f"{statistics.median(each.reached[i] for each in best):.1e}" for i in (0, 1)]
    seconds = statistics.median(each.seconds for each in found)
    cells = (gap, name, f"{best[0].parameters:,}", spread, *reached, f"{1e3 * seconds:.0f}")
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gaps", type=int, nargs="+", default=[10, 50, 100, 200])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="of the seconds by length, which training does not use")
    main(parser.parse_args())
