"""Threads of a run on a CPU: one where more are slower, and on resuming as many as the run was begun with."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from glassformer.training import threads as module
from glassformer.training.config import from_settings
from glassformer.training.device import Device
from glassformer.training.run import prepare
from glassformer.training.snapshots import State, newest
from glassformer.training.threads import fastest_threads, resume_threads, using_threads
from tests.training.test_run import CPU, settings_of, started


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two threads that nothing asked for."""
    monkeypatch.delenv(module.VARIABLE, raising=False)
    with using_threads(2):
        yield


def timed(monkeypatch: pytest.MonkeyPatch, seconds: dict[int, float]) -> None:
    monkeypatch.setattr(module, "_seconds", lambda: seconds[torch.get_num_threads()])


def test_one_is_taken_where_two_are_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    timed(monkeypatch, {1: 1.0, 2: 9.0})
    assert fastest_threads(Device(), said.append) == 1 and torch.get_num_threads() == 2
    assert said == [
        "other programs use this machine, and 2 threads are slower than 1: the run takes 1 "
        "(OMP_NUM_THREADS sets another number)"
    ]


@pytest.mark.parametrize("two", [0.6, 1.0, 1.4])
def test_all_are_taken_where_that_is_not_much_slower(two: float, monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, {1: 1.0, 2: two})
    assert fastest_threads(Device(), print) is None


def test_who_asks_for_threads_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, {1: 1.0, 2: 9.0})
    assert fastest_threads(Device(torch.device("cuda")), print) is None
    monkeypatch.setenv(module.VARIABLE, "2")
    assert fastest_threads(Device(), print) is None


def test_a_run_computes_with_them_and_resumes_with_as_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, {1: 1.0, 2: 9.0})
    settings = settings_of("gpt", tmp_path, steps=4, warmup_steps=1, save_every=2)
    settings = replace(settings, run=CPU)
    said: list[str] = []
    run = prepare(from_settings(settings), tmp_path / "run", said.append)
    seen = [torch.get_num_threads() for _ in run.train()]
    assert set(seen) == {1} and torch.get_num_threads() == 2
    assert sum("other programs" in each for each in said) == 1
    assert run.folder is not None
    found = newest(run.folder)
    assert found is not None and found.state["threads"] == 1
    longer = replace(settings, recipe=replace(settings.recipe, steps=6))
    timed(monkeypatch, {1: 1.0, 2: 0.5})
    logs = list(started(longer, tmp_path / "run", resume=True).train(resume=True))
    assert logs[-1].step == 6 and not any("threads" in (log.note or "") for log in logs)


def test_more_threads_than_cores_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    resume_threads((os.cpu_count() or 1) + 1)
    assert torch.get_num_threads() == 2
    resume_threads(1)
    assert torch.get_num_threads() == 1
    assert "threads" in State.__struct_fields__
