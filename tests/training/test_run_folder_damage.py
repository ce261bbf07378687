"""Full disks, broken files, other trainers and moved folders: one line that says what, where and what to do."""

import errno
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from glassformer.errors import RunFolderError
from glassformer.training.checkpoint_files import FORMAT, Manifest, seal
from glassformer.training.run_folder import BEST, LOG, RunFolder, Snapshot
from tests.training.fake_snapshots import moment, same, whole
from tests.training.faults import Faults, failing
from tests.training.fork_server import ROOT, ForkServer, fork_server

FILES = ("model.safetensors", "optimizer.safetensors", "state.json", "manifest.json")


@pytest.fixture(scope="module")
def children() -> Iterator[ForkServer]:
    with fork_server() as program:
        yield program


@pytest.fixture
def two(tmp_path: Path) -> RunFolder:
    """A folder with two checkpoints."""
    folder = RunFolder(tmp_path / "run", report=pytest.fail)
    for step in (1, 2):
        folder.save(moment(step))
    return folder


@pytest.mark.parametrize(
    ("operation", "number", "said"),
    [
        ("write", errno.ENOSPC, "the disk is full; free some space"),
        ("rename", errno.ENOSPC, "the disk is full; free some space"),
        ("write", errno.EDQUOT, "the disk quota is used up; delete some of your files"),
        ("write", errno.EFBIG, "the file is larger than allowed; raise the limit"),
        ("mkdir", errno.EROFS, "the file system is read-only; choose a folder on one that can be written"),
        ("mkdir", errno.EACCES, "permission is denied; change the permissions"),
        ("write", errno.EIO, "the disk reports an input/output error; copy what is there"),
        ("fsync", errno.EIO, "the disk reports an input/output error; copy what is there"),
        ("open", errno.EMFILE, "too many files are open; raise the limit"),
        ("fsync", errno.ESTALE, "Stale file handle; check the folder and its disk"),
    ],
)
def test_a_disk_that_refuses_is_named_and_nothing_is_lost(
    two: RunFolder, operation: str, number: int, said: str
) -> None:
    with Faults(1, failing(number), only=operation).armed(), pytest.raises(RunFolderError) as caught:
        two.save(moment(3))
    assert str(caught.value).startswith(
        f"{two.path}/step-00000003: not saved, earlier checkpoints are untouched: {said}"
    )
    assert whole(two) == [1, 2]
    assert sorted(os.listdir(two.path)) == ["step-00000001", "step-00000002"]
    two.save(moment(3))
    assert whole(two) == [2, 3]


@pytest.mark.parametrize(
    "action",
    [
        lambda folder: folder.log({"step": 2}),
        lambda folder: folder.mark_best(2),
        lambda folder: folder.write_text("config.toml", "new"),
    ],
    ids=["log", "best", "config"],
)
def test_small_files_are_as_before_when_the_disk_is_full(two: RunFolder, action: Callable[[RunFolder], None]) -> None:
    two.log({"step": 1})
    two.mark_best(1)
    two.write_text("config.toml", "old")
    before = {path.name: path.read_bytes() for path in two.path.iterdir() if path.is_file()}
    with (
        Faults(1, failing(errno.ENOSPC), only="write").armed(),
        pytest.raises(RunFolderError, match="not written: the disk is full"),
    ):
        action(two)
    assert {path.name: path.read_bytes() for path in two.path.iterdir() if path.is_file()} == before


ON_A_SMALL_DISK = """
import json, os, subprocess, sys, torch
from glassformer.errors import RunFolderError
from glassformer import durable
from glassformer.training.run_folder import RunFolder, Snapshot
folder = RunFolder(sys.argv[1] + "/run")
folder.save(Snapshot(1, {"w": torch.ones(50_000)}, {}, {}))
def tell(size):
    try:
        folder.save(Snapshot(2, {"w": torch.ones(size)}, {}, {}))
    except RunFolderError as error:
        print(json.dumps([str(error), folder.latest().step, os.listdir(folder.path)]))
tell(400_000)
durable.free_bytes = lambda path: 2**60
tell(400_000)
subprocess.run(["mount", "-o", "remount,ro", sys.argv[1]], check=True)
tell(1)
"""


def test_a_small_disk_that_is_really_full_or_read_only(tmp_path: Path) -> None:
    mounting = 'mount -t tmpfs -o size=1m none "$1" && shift && exec "$@"'
    words = ["unshare", "-rm", "sh", "-c", mounting, "sh", str(tmp_path)]
    if not shutil.which("unshare") or subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a small disk here")
    words += [sys.executable, "-c", ON_A_SMALL_DISK, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    for (error, latest, names), said in zip(told, ("no room for", "disk is full", "is read-only"), strict=True):
        assert said in error
        assert (latest, names) == (1, ["step-00000001"])


def test_a_file_that_really_may_not_grow(two: RunFolder) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(RunFolderError, match="the file is larger than allowed; raise the limit"):
            two.save(Snapshot(3, {"weight": torch.ones(100_000)}, {}, {}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert whole(two) == [1, 2]
    assert len(os.listdir(two.path)) == 2


def test_a_path_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with (
            pytest.raises(RunFolderError, match="cannot be locked: a part of the path is a file"),
            RunFolder(path).lock(),
        ):
            pass


@pytest.mark.parametrize("name", FILES)
def test_one_altered_bit_anywhere_is_found(two: RunFolder, tmp_path: Path, name: str) -> None:
    chance = random.Random(name)
    data = (two.path / "step-00000002" / name).read_bytes()
    for trial in range(200):
        said: list[str] = []
        path = tmp_path / f"copy {trial}"
        shutil.copytree(two.path, path)
        index, bit = chance.randrange(len(data)), chance.randrange(8)
        altered = data[:index] + bytes([data[index] ^ 1 << bit]) + data[index + 1 :]
        (path / "step-00000002" / name).write_bytes(altered)
        folder = RunFolder(path, report=said.append)
        assert same(folder.latest(), moment(1)), f"byte {index}, bit {bit}"
        (aside,) = path.glob("broken-*")
        assert (aside / name).read_bytes() == altered
        assert len(said) == 1 and f"step-00000002/{name}: " in said[0] and aside.name in said[0]
        shutil.rmtree(path)


def test_one_altered_bit_in_the_mark_of_the_best_is_found(two: RunFolder) -> None:
    two.mark_best(2)
    data = (two.path / BEST).read_bytes()
    for index in range(len(data)):
        for bit in range(8):
            (two.path / BEST).write_bytes(data[:index] + bytes([data[index] ^ 1 << bit]) + data[index + 1 :])
            with pytest.raises(RunFolderError, match="best.json: "):
                two.best()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("size", [None, 0, 1, -1], ids=["missing", "empty", "one byte", "cut short"])
def test_a_file_missing_or_cut_short_is_found(two: RunFolder, name: str, size: int | None) -> None:
    path = two.path / "step-00000002" / name
    if size is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(RunFolderError, match=f"step-00000002/{name}: ") as caught:
        two.load(2)
    assert "\n" not in str(caught.value)
    assert size is None or name == "manifest.json" or " bytes, wanted " in str(caught.value)
    said: list[str] = []
    assert same(RunFolder(two.path, report=said.append).latest(), moment(1))
    assert len(said) == 1


def test_a_folder_without_a_whole_checkpoint_has_none_and_keeps_the_pieces(tmp_path: Path) -> None:
    said: list[str] = []
    folder = RunFolder(tmp_path, report=said.append)
    for step in (1, 2):
        (folder.save(moment(step)) / "manifest.json").write_text("[1, 2")
    assert folder.latest() is None
    assert len(said) == 2 and len(list(tmp_path.glob("broken-*/model.safetensors"))) == 2


def test_a_newer_format_is_refused_and_left_alone(two: RunFolder) -> None:
    path = two.path / "step-00000002" / "manifest.json"
    newer = json.loads(path.read_text())["content"] | {"format": FORMAT + 1}
    path.write_bytes(seal(Manifest(**newer)))
    with pytest.raises(RunFolderError, match="has format 2, this version reads up to 1; install a newer one"):
        two.latest()
    assert two.steps() == [1, 2]


def test_a_checkpoint_under_another_steps_name_is_not_taken(two: RunFolder) -> None:
    (two.path / "step-00000002").rename(two.path / "step-00000009")
    said: list[str] = []
    assert same(RunFolder(two.path, report=said.append).latest(), moment(1))
    assert len(said) == 1 and "is of step 2, the folder was renamed" in said[0]


def test_a_reader_of_a_folder_it_may_not_change_still_falls_back(two: RunFolder) -> None:
    (two.path / "step-00000002" / "state.json").write_text("{}")
    said: list[str] = []
    with Faults(1, failing(errno.EROFS), only="rename").armed():
        assert same(RunFolder(two.path, report=said.append).latest(), moment(1))
    assert len(said) == 2 and "not moved aside: the file system is read-only" in said[0]
    assert two.steps() == [1, 2]


def test_a_checkpoint_one_may_not_read_is_not_called_broken(two: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, "denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(RunFolderError, match="step-00000002: cannot be read: permission is denied"):
        two.latest()
    assert two.steps() == [1, 2]


def test_a_reader_that_meets_pruning_looks_again(two: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.read_bytes

    def read(path: Path) -> bytes:
        if path.parent.name == "step-00000002" and path.name == "state.json":
            monkeypatch.setattr(Path, "read_bytes", real)
            for step in (3, 4):
                two.save(moment(step))
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    assert same(two.latest(), moment(4))


def test_a_second_trainer_is_refused_and_a_dead_one_is_not_waited_for(children: ForkServer, two: RunFolder) -> None:
    children.start("hold", two.path)
    child, worker = int(children.line()[1]), int(children.line()[1])
    with pytest.raises(RunFolderError, match=f"run: is in use by process {child} on .*; wait for it"), two.lock():
        pass
    os.kill(child, signal.SIGKILL)
    assert children.line() == ["ended", "-9"]
    with two.lock():  # although its worker lives on
        two.save(moment(3))
    os.kill(worker, signal.SIGKILL)
    assert whole(two) == [2, 3]


def test_a_second_trainer_of_the_same_process_is_refused(children: ForkServer, two: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(two.path)
    refused: list[str] = []

    def second(path: Path) -> None:
        try:
            with RunFolder(path).lock():
                pass
        except RunFolderError as error:
            refused.append(str(error))

    with two.lock():
        second(two.path)
        second(tmp_path / "link")
        thread = threading.Thread(target=second, args=(two.path,))
        thread.start()
        thread.join()
        children.start("hold", two.path)  # the first still has it, whatever the others opened and closed
        assert children.rest()[-1] == ["ended", "1"]
    assert len(refused) == 3 and all(f"in use by this process ({os.getpid()})" in text for text in refused)
    second(two.path)
    assert len(refused) == 3


def test_what_a_dead_trainer_left_is_cleared_up(two: RunFolder) -> None:
    shutil.copytree(two.path / "step-00000002", two.path / ".tmp-00000003-0a1b2c3d")
    (two.path / ".tmp-best.json-0a1b2c3d").write_text("")
    shutil.copytree(two.path / "step-00000002", two.path / ".old-step-00000002-0a1b2c3d")
    (two.path / "step-00000001").rename(two.path / ".old-step-00000001-0a1b2c3d")
    (two.path / "notes.txt").write_text("mine")
    with two.lock():
        assert sorted(os.listdir(two.path)) == [".lock", "notes.txt", "step-00000001", "step-00000002"]
    assert whole(two) == [1, 2]


def test_the_newest_is_by_step_and_not_by_the_clock(two: RunFolder) -> None:
    for number, step in enumerate((2, 1)):
        for path in (*two.path.glob(f"step-{step:08d}/*"), two.path / f"step-{step:08d}"):
            os.utime(path, (number * 10_000, number * 10_000))
    assert same(two.latest(), moment(2))
    two.save(moment(3))
    assert whole(two) == [2, 3]


def test_a_renamed_folder_goes_on(two: RunFolder, tmp_path: Path) -> None:
    two.log({"step": 2})
    two.path.rename(tmp_path / "elsewhere")
    moved = RunFolder(tmp_path / "elsewhere", report=pytest.fail)
    with moved.lock():
        assert same(moved.latest(), moment(2))
        moved.save(moment(3))
    assert whole(moved) == [2, 3]


def test_a_folder_renamed_under_a_trainer_is_said(two: RunFolder, tmp_path: Path) -> None:
    with two.lock():
        two.path.rename(tmp_path / "elsewhere")
        with pytest.raises(RunFolderError, match="is no longer the folder that this run locked: it was moved"):
            two.save(moment(3))
        assert not two.path.exists()
        (tmp_path / "elsewhere").rename(two.path)
        two.save(moment(3))
    assert whole(two) == [2, 3]


def test_a_linked_folder_and_a_linked_checkpoint_work(two: RunFolder, tmp_path: Path) -> None:
    (two.path / "step-00000001").rename(tmp_path / "far")
    (two.path / "step-00000001").symlink_to(tmp_path / "far")
    (tmp_path / "link").symlink_to(two.path)
    linked = RunFolder(tmp_path / "link", report=pytest.fail)
    with linked.lock():
        assert whole(linked) == [1, 2]
        linked.save(moment(3))
    assert whole(two) == [2, 3]
    assert (tmp_path / "far" / "model.safetensors").exists()  # the link is pruned, not what it points to


IN_PLACE: dict[str, Callable[[RunFolder], object]] = {
    ".lock": lambda folder: folder.lock().__enter__(),
    LOG: lambda folder: folder.log({"step": 1}),
    f"{LOG} cut": lambda folder: folder.rewind_log(0),
    f"{LOG} synced": lambda folder: folder.save(moment(1)),
}


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe"])
@pytest.mark.parametrize("name", IN_PLACE)
def test_links_and_pipes_are_refused_and_what_they_point_at_is_untouched(name: str, kind: str, tmp_path: Path) -> None:
    precious, run = tmp_path / "precious", tmp_path / "run"
    run.mkdir()
    if kind == "link":
        precious.write_text("precious")
    path = run / name.split(maxsplit=1)[0]
    os.mkfifo(path) if kind == "pipe" else path.symlink_to(precious)
    why = "it is not a regular file" if kind == "pipe" else "it is a symbolic link, which is not followed; remove"
    with pytest.raises(RunFolderError, match=why):
        IN_PLACE[name](RunFolder(run, report=pytest.fail))
    assert precious.exists() is (kind == "link") and (kind != "link" or precious.read_text() == "precious")


def test_files_that_are_replaced_whole_take_the_place_of_a_link(tmp_path: Path) -> None:
    precious, run = tmp_path / "precious", tmp_path / "run"
    precious.write_text("precious")
    folder = RunFolder(run, report=pytest.fail)
    folder.save(moment(1))
    for name in ("best.json", "config.toml"):
        (run / name).symlink_to(precious)
    folder.mark_best(1)
    folder.write_text("config.toml", "a = 1\n")
    assert precious.read_text() == "precious" and folder.best_step() == 1
