"""Measuring runners side by side: each is built and warmed up, then all take turns, round by round."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from glassformer.errors import GlassformerError
from glassformer.torch_private import compiled_graphs

OURS = "glassformer"
GIGABYTE = 1e9
LONGEST_ERROR = 300  # characters of it that are shown

Say = Callable[[str], None]
Step = Callable[[], object]


class BenchError(GlassformerError):
    """A benchmark cannot be run, or what it compares is not the same."""


@dataclass(frozen=True)
class Runner:
    """One implementation of a piece of work: `start` builds it and returns the function that takes one step.

    Where steps differ, `total` counts what they have done so far, in the unit of the row; it is asked between rounds.
    """

    name: str
    start: Callable[[], Step]
    total: Callable[[], float] | None = None
    finish: Callable[[], object] | None = None  # after every round


@dataclass(frozen=True, kw_only=True)
class TimedWork:
    """A row of a suite: its name, what one step does and in which unit, and how long it is warmed up and timed."""

    suite: str
    name: str
    unit: str
    amount: float
    steps: int
    warm_up: int
    apart: Mapping[str, float] = field(default_factory=dict)  # of each peer: how far from ours, with our weights


@dataclass(kw_only=True)
class Measurement:
    """What one runner did in one row; `ratio` is the rate of the first runner of the row, which is ours, over its rate,
    and `memory_ratio` the peak of the first over its peak.

    `spread` is that of the rounds, as a fraction of the median.

    Memory is what it took beyond what there was before it was built: `peak` from then on, compiling included, `steady`
    in one step after the warm-up, `reserved` what the allocator holds for it, as graphs do between steps.
    """

    suite: str
    row: str
    runner: str
    unit: str
    rate: float
    milliseconds: float
    spread: float
    ratio: float | None = None
    memory_ratio: float | None = None
    peak_gigabytes: float | None = None
    steady_gigabytes: float | None = None
    reserved_gigabytes: float | None = None
    warm_up_seconds: float = 0.0
    first_step_seconds: float = 0.0
    compile_seconds: float = 0.0
    graphs_while_timed: int = 0
    apart: float | None = None
    note: str = ""
    rounds: list[float] = field(default_factory=list)  # seconds of a step, one for each round


@dataclass
class _Warm:
    """A runner that is ready to be timed."""

    runner: Runner
    step: Step
    measurement: Measurement
    amounts: list[float] = field(default_factory=list)


def wait(device: torch.device) -> None:
    """Wait until the device has done all it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure(
    work: TimedWork, runners: Sequence[Runner], rounds: int, device: torch.device, say: Say
) -> list[Measurement]:
    """Build and warm up each runner, then time them in turns; a peer that fails is reported and left out."""
    warm = [ready for runner in runners if (ready := _warmed(work, runner, device, say)) is not None]
    for _ in range(rounds):
        for ready in list(warm):
            try:
                _round(work, ready, device)
            except Exception as error:
                _left_out(work, ready.runner, error, say)
                warm.remove(ready)
    for ready in warm:
        _summarize(work, ready)
        say(f"{work.suite} {work.name}: {_in_words(ready.measurement)}")  # kept if what is measured later is cut short
    found = [ready.measurement for ready in warm]
    _compare(found, runners[0].name if runners else "")
    del warm
    release(device)
    return found


def _in_words(found: Measurement) -> str:
    peak = "" if found.peak_gigabytes is None else f", peak {found.peak_gigabytes:.2f} GB"
    return f"{found.runner}: {found.rate:,.4g} {found.unit}, {found.milliseconds:,.4g} ms{peak}"


def _compare(found: Sequence[Measurement], reference: str) -> None:
    """Set the ratios of all that are beside the reference."""
    first = next((each for each in found if each.runner == reference), None)
    for each in found:
        if first is not None and each is not first:
            each.ratio = first.rate / each.rate
            if first.peak_gigabytes is not None and each.peak_gigabytes:
                each.memory_ratio = first.peak_gigabytes / each.peak_gigabytes


def release(device: torch.device) -> None:
    """Give back what no runner holds any more, compiled code included."""
    torch.compiler.reset()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _warmed(work: TimedWork, runner: Runner, device: torch.device, say: Say) -> _Warm | None:
    cuda = device.type == "cuda"
    gc.collect()
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device) if cuda else 0
    reserved = torch.cuda.memory_reserved(device) if cuda else 0
    say(f"{work.suite} {work.name}: {runner.name}: building and warming up")
    try:
        step = runner.start()
        wait(device)
        began = time.perf_counter()
        step()
        wait(device)
        first = time.perf_counter() - began
        for _ in range(work.warm_up - 1):
            step()
        wait(device)
    except Exception as error:
        _left_out(work, runner, error, say)
        return None
    found = Measurement(
        suite=work.suite, row=work.name, runner=runner.name, unit=work.unit, rate=0, milliseconds=0, spread=0
    )
    found.first_step_seconds, found.warm_up_seconds = first, time.perf_counter() - began
    if cuda:
        found.peak_gigabytes = (torch.cuda.max_memory_allocated(device) - before) / GIGABYTE
        torch.cuda.reset_peak_memory_stats(device)
        step()
        wait(device)
        found.steady_gigabytes = (torch.cuda.max_memory_allocated(device) - before) / GIGABYTE
        found.reserved_gigabytes = (torch.cuda.memory_reserved(device) - reserved) / GIGABYTE
    return _Warm(runner, step, found)


def _left_out(work: TimedWork, runner: Runner, error: Exception, say: Say) -> None:
    """Say why a peer is left out; an error of ours ends the benchmark."""
    if runner.name == OURS or isinstance(error, BenchError):
        raise error
    why = f"{type(error).__name__}: {' '.join(str(error).split())[:LONGEST_ERROR]}"
    say(f"{work.suite} {work.name}: {runner.name} is left out: {why}")


def _round(work: TimedWork, ready: _Warm, device: torch.device) -> None:
    total, graphs = ready.runner.total, compiled_graphs()
    before = 0.0 if total is None else total()
    wait(device)
    began = time.perf_counter()
    for _ in range(work.steps):
        ready.step()
    wait(device)
    ready.measurement.rounds.append((time.perf_counter() - began) / work.steps)
    ready.measurement.graphs_while_timed += compiled_graphs() - graphs
    ready.amounts.append(work.amount if total is None else (total() - before) / work.steps)
    if ready.runner.finish is not None:
        ready.runner.finish()


def _summarize(work: TimedWork, ready: _Warm) -> None:
    found = ready.measurement
    rates = [amount / seconds for amount, seconds in zip(ready.amounts, found.rounds, strict=True)]
    median = statistics.median(found.rounds)
    found.rate, found.milliseconds = statistics.median(rates), 1000 * median
    found.spread = (max(rates) - min(rates)) / found.rate
    found.compile_seconds = max(found.warm_up_seconds - work.warm_up * median, 0.0)
    found.apart = work.apart.get(ready.runner.name)
