"""A training killed at any moment and resumed ends in the bits of the one that was never stopped."""

import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from glassformer.errors import RunFolderError
from glassformer.models.registry import build
from glassformer.training.loop import train
from glassformer.training.objective import NEXT_TOKEN
from glassformer.training.run_folder import LOG, RunFolder
from tests.training.fork_server import ForkServer, fork_server
from tests.training.tiny_run import CONFIG, STEPS, assert_same_run, batches, copy_of, go, recipe

OPTIMIZERS = ("adamw", "muon")
KILLS = 10  # of each


@pytest.fixture(scope="module")
def children() -> Iterator[ForkServer]:
    with fork_server() as program:
        yield program


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory, children: ForkServer) -> dict[str, Path]:
    """The run that was never stopped, made by the same program as the others."""
    paths = {name: tmp_path_factory.mktemp("unbroken") / name for name in OPTIMIZERS}
    for number, path in enumerate(paths.values()):
        children.start("train_on", path, number)
        assert children.rest()[-1] == ["ended", "0"]
    return paths


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_run_killed_at_random_moments_ends_in_the_same_bits(
    children: ForkServer, unbroken: dict[str, Path], optimizer: str, tmp_path: Path
) -> None:
    seed = 10 + OPTIMIZERS.index(optimizer)
    print("seed", seed)
    chance = random.Random(seed)
    during: Counter[str] = Counter()
    runs = 0
    while during.total() < KILLS:
        path, runs = tmp_path / str(runs), runs + 1
        while True:
            children.start("train_on", path, OPTIMIZERS.index(optimizer))
            child, line = int(children.line()[1]), ["start"]
            for _ in range(chance.randrange(1, 20) if during.total() < KILLS else 1000):
                line = children.line()
                if line[0] == "ended":
                    break
            if line[0] != "ended":
                time.sleep(chance.random() * 0.01)  # not to wait for anything, but to die at any moment
                with suppress(ProcessLookupError):  # it may just have finished
                    os.kill(child, signal.SIGKILL)
                *lines, end = [line, *children.rest()]
                if end == ["ended", "-9"]:
                    during[lines[-1][0]] += 1
                line = end
            if line == ["ended", "0"]:
                break
            assert line == ["ended", "-9"]
        assert_same_run(path, unbroken[optimizer])
    print(dict(during), "in", runs, "runs")
    assert len(during) > 1, "all kills came at one kind of moment"


def test_a_run_killed_at_every_file_operation_ends_in_the_same_bits(children: ForkServer, tmp_path: Path) -> None:
    """From step 3, which is saved, to step 4, which is logged, evaluated, saved and called the best."""
    unbroken = tmp_path / "unbroken"
    go(unbroken, recipe(steps=4), keep=5)
    begun = copy_of(unbroken, tmp_path / "begun", 3)
    (begun / "best.json").unlink()
    for number in range(1, 200):
        path = tmp_path / str(number)
        shutil.copytree(begun, path)
        children.start("die_training", path, number)
        end = children.rest()[-1]
        children.start("die_training", path)
        assert children.rest()[-1] == ["ended", "0"]
        assert_same_run(path, unbroken)
        if end == ["ended", "0"]:
            break
        assert end == ["ended", "-9"]
    assert number > 30


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_run_resumed_at_any_step_ends_in_the_same_bits(optimizer: str, tmp_path: Path) -> None:
    """Twenty places in all, those between two epochs among them, where the next batch begins another order."""
    how = recipe(optimizer, save_every=1)
    go(tmp_path / "all", how, keep=STEPS)
    size = len(batches()._plan(0))
    borders = {step for step in range(1, STEPS) if how.gradient_accumulation * step % size == 0}
    assert len(borders) >= 3
    chance = random.Random(OPTIMIZERS.index(optimizer))
    others = sorted(set(range(1, STEPS)) - borders)
    for step in sorted(borders | set(chance.sample(others, 10 - len(borders)))):
        path = copy_of(tmp_path / "all", tmp_path / str(step), step)
        torch.manual_seed(step)  # whatever happened in between does not matter
        logs = go(path, how, seed=9, keep=STEPS)
        assert [log.step for log in logs] == list(range(step + 1, STEPS + 1))
        assert all(log.note is None or "overfitting" in log.note for log in logs)
        assert_same_run(path, tmp_path / "all")


def test_what_would_change_a_resumed_run_is_in_its_snapshot(tmp_path: Path) -> None:
    """Taken out one at a time, each makes another run: so the tests above can fail."""
    how = recipe(save_every=5)
    go(tmp_path / "all", how, keep=STEPS)
    for name in ("random", "data", "average", "optimizer"):
        path = copy_of(tmp_path / "all", tmp_path / name, 10)
        folder = RunFolder(path, STEPS)
        found = folder.load(10)
        if name == "random":
            found.state["random"] = [torch.get_rng_state().numpy().tobytes().hex()]
        elif name == "data":
            found.state["data"] = {**found.state["data"], "index": 0}  # pyright: ignore[reportGeneralTypeIssues]
        else:
            for key in [key for key in found.optimizer if key.startswith("average/") == (name == "average")]:
                found.optimizer[key].mul_(1.01)
        folder.save(found)
        go(path, how, keep=STEPS)
        assert (path / LOG).read_text() != (tmp_path / "all" / LOG).read_text(), name


def test_a_run_whose_checkpoints_are_all_broken_does_not_start_over(tmp_path: Path) -> None:
    go(tmp_path, recipe())
    for folder in tmp_path.glob("step-*"):
        (folder / "model.safetensors").write_bytes(b"")
    log = (tmp_path / LOG).read_text()
    for _ in range(2):  # also when they have been set aside before
        said: list[str] = []
        with pytest.raises(RunFolderError, match="no checkpoint in it is whole; begin again in another folder"):
            folder = RunFolder(tmp_path, report=said.append)
            list(train(build(CONFIG), batches(), NEXT_TOKEN, recipe(), folder))
    assert (tmp_path / LOG).read_text() == log
    assert len(list(tmp_path.glob("broken-*"))) >= 2 and not RunFolder(tmp_path).steps()
