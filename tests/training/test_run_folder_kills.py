"""Kills, power cuts and failures at every moment of a save: what was saved stays, and nothing half-written counts."""

import errno
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from glassformer.errors import RunFolderError
from glassformer.training.run_folder import LOG, RunFolder
from tests.training.fake_snapshots import moment, same, whole
from tests.training.faults import Disk, Faults, PowerCut, cutting, failing
from tests.training.fork_server import ForkServer, fork_server


@pytest.fixture(scope="module")
def children() -> Iterator[ForkServer]:
    with fork_server() as program:
        yield program


@pytest.fixture
def seasoned(tmp_path: Path) -> Path:
    """A folder with a log and two checkpoints, steps 2 and 3."""
    folder = RunFolder(tmp_path / "seasoned", report=pytest.fail)
    folder.write_text("config.toml", "")
    folder.log({"step": 0})
    for step in (1, 2, 3):
        folder.save(moment(step))
    return folder.path


def sound(path: Path, least: int, most: int) -> None:
    """The next trainer finds the newest checkpoint whole, two or more of them, and nothing left over."""
    folder = RunFolder(path, report=pytest.fail)
    with folder.lock():
        found = folder.latest()
        assert found is not None and least <= found.step <= most
        assert same(found, moment(found.step))
        assert len(whole(folder)) >= 2
        assert [name for name in os.listdir(path) if name.startswith((".tmp", ".old", "broken"))] == []


def assert_survives_kills(children: ForkServer, path: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    announced = 0
    for kill in range(kills):
        children.start("save_on", path)
        child = int(children.line()[1])
        for _ in range(chance.randrange(3)):
            announced = int(children.line()[1])
        time.sleep(chance.random() * 0.03)  # not to wait for anything, but to die at any moment
        os.kill(child, signal.SIGKILL)
        *lines, _ = children.rest()
        announced = int(lines[-1][1]) if lines else announced
        folder = RunFolder(path, report=pytest.fail)
        found = folder.latest()
        step = found.step if found else 0
        assert announced <= step <= announced + 1, f"kill {kill} of seed {seed}"
        assert found is None or same(found, moment(step, 20_000)), f"kill {kill} of seed {seed}"
        announced = step
        assert whole(folder, 20_000) == folder.steps()
        log = (path / LOG).read_text().splitlines() if (path / LOG).exists() else []
        assert log[:step] == [f'{{"step":{number}}}' for number in range(1, step + 1)]
    assert announced > kills / 4


def test_a_run_killed_25_times_loses_no_save(children: ForkServer, tmp_path: Path) -> None:
    assert_survives_kills(children, tmp_path / "run", 25, seed=1)


@pytest.mark.soak
def test_a_run_killed_1000_times_loses_no_save(children: ForkServer, tmp_path: Path) -> None:
    assert_survives_kills(children, tmp_path / "run", 1000, seed=2)


def test_a_kill_at_any_file_operation_leaves_two_whole(children: ForkServer, seasoned: Path, tmp_path: Path) -> None:
    seen: set[int] = set()
    for number in range(1, 200):
        path = tmp_path / str(number)
        shutil.copytree(seasoned, path)
        children.start("die_saving", path, number)
        lines = children.rest()
        before_clearing = RunFolder(path, report=pytest.fail)
        assert len(whole(before_clearing)) >= 2, f"operation {number}"
        seen.add(len(before_clearing.steps()))
        sound(path, 4 if ["saved", "4"] in lines else 3, 4)
        if ["untouched"] in lines:
            break
    assert number > 25 and lines[-1] == ["ended", "0"]
    assert seen == {2, 3}  # three of them: killed after the new one appeared and before the oldest went


def test_a_kill_while_a_step_is_saved_again_loses_neither(children: ForkServer, seasoned: Path, tmp_path: Path) -> None:
    for number in range(1, 200):
        path = tmp_path / str(number)
        shutil.copytree(seasoned, path)
        children.start("die_saving_again", path, number)
        lines = children.rest()
        sound(path, 3, 3)
        if ["untouched"] in lines:
            break
    assert number > 25 and lines[-1] == ["ended", "0"]


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("step", [3, 4], ids=["again", "next"])
def test_a_failure_of_any_file_operation_leaves_the_others(
    step: int, lasting: bool, seasoned: Path, tmp_path: Path
) -> None:
    refused = 0
    for number in range(1, 200):
        path = tmp_path / str(number)
        shutil.copytree(seasoned, path)
        folder = RunFolder(path, report=lambda text: None)
        faults = Faults(number, failing(errno.EIO), lasting=lasting)
        with folder.lock():
            try:
                with faults.armed():
                    folder.save(moment(step))
            except RunFolderError as error:
                refused += 1
                assert "input/output error" in str(error) and "\n" not in str(error)
            assert lasting or len(whole(folder)) >= 2
        sound(path, 3, step)
        if faults.count < number:
            break
    assert refused >= 20 and faults.count < number


@pytest.mark.parametrize("keep_names", [False, True], ids=["names lost", "names kept"])
@pytest.mark.parametrize("step", [3, 4], ids=["again", "next"])
def test_a_power_cut_at_any_file_operation_leaves_what_was_announced(
    step: int, keep_names: bool, seasoned: Path, tmp_path: Path
) -> None:
    for number in range(1, 200):
        path = tmp_path / str(number)
        shutil.copytree(seasoned, path)
        folder = RunFolder(path)
        disk = Disk(number, cutting, lasting=True)
        announced = 3
        try:
            with disk.armed():
                folder.log({"step": step})
                folder.save(moment(step))
                announced = step
                folder.mark_best(step)
        except PowerCut:
            pass
        disk.cut(keep_names)
        sound(path, announced, step)
        folder = RunFolder(path, report=pytest.fail)
        folder.rewind_log(folder.steps()[-1])  # reports if lines are missing
        assert folder.best_step() in (None, announced)
        if disk.count < number:
            break
    assert number > 25 and disk.count < number


def test_config_is_whole_after_a_power_cut_at_any_file_operation(tmp_path: Path) -> None:
    for keep_names in (True, False):
        for number in range(1, 50):
            folder = RunFolder(tmp_path / f"{keep_names}{number}")
            folder.write_text("config.toml", "old")
            disk, announced = Disk(number, cutting, lasting=True), {"old", "new"}
            try:
                with disk.armed():
                    folder.write_text("config.toml", "new")
                    announced = {"new"}
            except PowerCut:
                pass
            disk.cut(keep_names)
            assert (folder.path / "config.toml").read_text() in announced
            if disk.count < number:
                break
        assert number > 5
