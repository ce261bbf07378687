"""Measuring in turns: what is compared with the first runner of a row."""

import pytest
import torch

from glassformer.bench import measure
from glassformer.bench.measure import Measurement, Runner, Say, TimedWork


def test_memory_is_compared_where_it_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = iter((3.0, 6.0, None))

    def warmed(work: TimedWork, runner: Runner, device: torch.device, say: Say) -> measure._Warm:  # pyright: ignore
        sizes = {"rate": 0, "milliseconds": 0, "spread": 0, "peak_gigabytes": next(peaks)}
        found = Measurement(suite="s", row="r", runner=runner.name, unit="u", **sizes)
        return measure._Warm(runner, runner.start(), found)  # pyright: ignore[reportPrivateUsage]

    monkeypatch.setattr(measure, "_warmed", warmed)
    runners = [Runner(name, lambda: lambda: None) for name in ("ours", "one", "other")]
    work = TimedWork(suite="s", name="r", unit="u", amount=1, steps=1, warm_up=1)
    found = measure.measure(work, runners, 1, torch.device("cpu"), print)
    assert [each.memory_ratio for each in found] == [None, 0.5, None]
