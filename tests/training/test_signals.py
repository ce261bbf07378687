"""SIGTERM and Ctrl-C: the step is finished and saved, the run goes on exactly; a second one leaves at once."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from glassformer.errors import InterruptedRunError
from glassformer.training.objective import LossModule
from glassformer.training.run_folder import RunFolder
from glassformer.training.step import Training
from tests.training.faults import Faults
from tests.training.fork_server import fork_server
from tests.training.tiny_run import assert_same_run, go, recipe

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LEARNED, EVALUATED, SAVED = (1, 2, 5, 11, 13, 19), (4, 8, 12, 16), (3, 6, 9, 15, 18)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("unbroken")
    go(path, recipe())
    return path


@contextmanager
def in_a_step(number: int, at: int) -> Iterator[None]:
    """Receive a signal in the forward pass of a step."""
    real, forward = Training.train_step, LossModule.forward
    passes = 0

    def learn(self: Training) -> None:
        nonlocal passes
        passes = 2 if self.done + 1 == at else 0
        real(self)

    def hear(self: LossModule, *args: object) -> object:
        nonlocal passes
        passes -= 1
        if passes == 0:  # the second part of two
            os.kill(os.getpid(), number)
        return forward(self, *args)  # pyright: ignore[reportArgumentType]

    with patch.object(Training, "train_step", learn), patch.object(LossModule, "forward", hear):
        yield


@contextmanager
def in_an_evaluation(number: int, at: int) -> Iterator[None]:
    """Receive a signal while held-out data are gone through."""
    forward = LossModule.forward
    passes = 0

    def hear(self: LossModule, *args: object) -> object:
        nonlocal passes
        if not torch.is_grad_enabled():
            passes += 1
            if passes == 3 * EVALUATED.index(at) + 2:  # the second batch of three
                os.kill(os.getpid(), number)
        return forward(self, *args)  # pyright: ignore[reportArgumentType]

    with patch.object(LossModule, "forward", hear):
        yield


@contextmanager
def in_a_save(number: int, at: int) -> Iterator[None]:
    """Receive a signal when half of a checkpoint is written."""
    save = RunFolder.save

    def hear(self: RunFolder, snapshot: object, log: int) -> object:
        chosen = getattr(snapshot, "step", 0) == at
        with Faults(9 if chosen else 0, lambda _: os.kill(os.getpid(), number)).armed():
            return save(self, snapshot, log)  # pyright: ignore[reportArgumentType]

    with patch.object(RunFolder, "save", hear):
        yield


MOMENTS = [
    *((in_a_step, at, at) for at in LEARNED),
    *((in_an_evaluation, at, at) for at in EVALUATED),
    *((in_a_save, at, at + 1) for at in SAVED),  # it is seen after the next step
]


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(("moment", "at", "stops"), MOMENTS)
def test_a_signal_saves_the_step_and_the_run_goes_on_exactly(
    number: signal.Signals, moment: Callable[..., object], at: int, stops: int, tmp_path: Path, unbroken: Path
) -> None:
    before = [signal.getsignal(each) for each in SIGNALS]
    with moment(number, at), pytest.raises(InterruptedRunError) as stopped:  # pyright: ignore[reportGeneralTypeIssues]
        go(tmp_path / "run", recipe())
    assert stopped.value.status == 128 + number
    assert str(stopped.value) == f"stopped by {number.name} after step {stops}, which is saved"
    assert RunFolder(tmp_path / "run").steps()[-1] == stops
    assert [signal.getsignal(each) for each in SIGNALS] == before
    go(tmp_path / "run", recipe(), seed=9)
    assert_same_run(tmp_path / "run", unbroken)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_in_the_last_step_changes_nothing(number: signal.Signals, tmp_path: Path, unbroken: Path) -> None:
    with in_a_step(number, 20):
        assert go(tmp_path / "run", recipe())[-1].step == 20
    assert_same_run(tmp_path / "run", unbroken)


def test_a_terminal_that_closes_stops_a_run_politely(tmp_path: Path, unbroken: Path) -> None:
    """It sends SIGHUP, and again, and cannot be written to from then on."""
    control, terminal = os.openpty()
    kept = os.dup(2)
    os.dup2(terminal, 2)
    try:
        with in_a_step(signal.SIGHUP, 5), in_a_save(signal.SIGHUP, 5), pytest.raises(InterruptedRunError) as stopped:
            go(tmp_path / "run", recipe())
        os.close(control)
        os.write(2, b"nobody reads this")
    finally:
        os.dup2(kept, 2)
        for each in (kept, terminal):
            os.close(each)
    assert stopped.value.status == 129
    assert str(stopped.value) == "stopped by SIGHUP after step 5, which is saved"
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
    go(tmp_path / "run", recipe(), seed=9)
    assert_same_run(tmp_path / "run", unbroken)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_is_ignored_stays_so(number: signal.Signals, tmp_path: Path) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with in_a_step(number, 2):
            assert go(tmp_path, recipe(steps=4))[-1].step == 4
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_a_run_outside_the_main_thread_is_trained_without_listening(tmp_path: Path, unbroken: Path) -> None:
    thread = threading.Thread(target=go, args=(tmp_path / "run", recipe()))
    thread.start()
    thread.join()
    assert_same_run(tmp_path / "run", unbroken)


def test_a_run_that_keeps_nothing_leaves_signals_alone() -> None:
    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        with in_a_step(signal.SIGTERM, 2), pytest.raises(KeyboardInterrupt):
            go(None, recipe())
    finally:
        signal.signal(signal.SIGTERM, before)


def test_signals_from_outside_end_a_process_with_their_status(tmp_path: Path, unbroken: Path) -> None:
    """A second signal does not wait for the save: the step it interrupted is lost, what was saved is not."""
    with fork_server() as children:
        for number, status in ((signal.SIGTERM, "143"), (signal.SIGINT, "130")):
            path = tmp_path / status
            children.start("train_on", path)
            child = int(children.line()[1])
            while children.line() != ["train_step", "4"]:
                pass
            os.kill(child, number)
            *lines, end = children.rest()
            assert (lines[-1], end) == (["interrupted", status], ["ended", status])
            last = max([4, *(int(line[1]) for line in lines if line[0] == "train_step")])
            assert RunFolder(path).steps()[-1] == last < 20
            children.start("wait_to_be_stopped_twice", path)
            child = int(children.line()[1])
            assert children.line() == ["learning"]
            os.kill(child, number)
            assert children.line() == ["asked"]
            os.kill(child, signal.SIGTERM)
            assert children.rest() == [["ended", "-15"]]
            assert RunFolder(path).steps()[-1] == last


def test_the_command_ends_with_the_status_of_its_signal_and_goes_on(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a rose is a rose is a rose. " * 40)
    out = tmp_path / "run"
    sizes = [
        "model.dim=8",
        "model.layers=1",
        "model.heads=2",
        "model.context=16",
        "data.max_length=16",
        "data.batch_size=4",
    ]
    run = [
        "recipe.steps=100000",
        "recipe.warmup_steps=1",
        "recipe.log_every=1",
        "tokenizer.kind=characters",
        "run.device=cpu",
    ]
    command = [sys.executable, "-m", "glassformer", "train"]
    environment = {**os.environ, "GLASSFORMER_CACHE": str(tmp_path / "cache")}
    with subprocess.Popen(
        [*command, "gpt", "--data", str(text), "--out", str(out), "--no-progress", *sizes, *run],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment,
    ) as program:  # fmt: skip
        assert program.stderr is not None
        for line in program.stderr:
            if "step 1 of" in line:
                program.send_signal(signal.SIGTERM)
                break
        rest = program.stderr.read()
    assert program.returncode == 143, rest
    assert "stopped by SIGTERM after step" in rest and f"glassformer train --resume --out {out}" in rest
    assert "Traceback" not in rest
    assert len(RunFolder(out).steps()) == 1
