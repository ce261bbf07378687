"""A program that forks children to be killed: torch is loaded once, each child starts in milliseconds.

It reads a line of JSON for each child, `[task, folder, number]`, and prints what the child prints
and then `ended` and the child's exit status.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from glassformer.errors import InterruptedRunError
from glassformer.training.run_folder import RunFolder
from glassformer.training.step import Training
from tests.training.fake_snapshots import moment
from tests.training.faults import Faults, dying
from tests.training.tiny_run import go, recipe

ROOT = Path(__file__).parents[2]


class ForkServer:
    """The program as a test sees it."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self._program = program

    def start(self, task: str, folder: Path, number: int = 0) -> None:
        """Have a child do a task."""
        assert self._program.stdin is not None
        self._program.stdin.write(json.dumps([task, str(folder), number]) + "\n")
        self._program.stdin.flush()

    def line(self) -> list[str]:
        """The words of the next line, from a child or about its end."""
        assert self._program.stdout is not None
        words = self._program.stdout.readline().split()
        assert words, "the fork server died"
        return words

    def rest(self) -> list[list[str]]:
        """All lines until the child has ended."""
        lines = [self.line()]
        while lines[-1][0] != "ended":
            lines.append(self.line())
        return lines


@contextmanager
def fork_server() -> Iterator[ForkServer]:
    """Run the program."""
    command = [sys.executable, "-m", "tests.training.fork_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as program:
        children = ForkServer(program)
        assert children.line() == ["ready"]
        yield children
        assert program.stdin is not None
        program.stdin.close()


def say(*words: object) -> None:
    """Print a line in one write, so that a kill cannot tear it, unbuffered output or not."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def save_on(path: Path, _number: int) -> None:
    """Resume, then save every step."""
    folder = RunFolder(path)
    with folder.lock():
        found = folder.latest()
        step = found.step if found else 0
        folder.rewind_log(step)
        while True:
            step += 1
            folder.log({"step": step})
            folder.save(moment(step, 20_000))
            if step % 5 == 0:
                folder.mark_best(step)
            say("saved", step)


def die_saving(path: Path, number: int) -> None:
    """Save the next step and be killed at one of the file operations."""
    folder = RunFolder(path)
    step = folder.steps()[-1] + 1
    with folder.lock(), Faults(number, dying).armed():
        folder.save(moment(step))
        say("saved", step)
        folder.mark_best(step)
    say("untouched")


def die_saving_again(path: Path, number: int) -> None:
    """Save the newest step once more and be killed at one of the file operations."""
    folder = RunFolder(path)
    with folder.lock(), Faults(number, dying).armed():
        folder.save(moment(folder.steps()[-1]))
    say("untouched")


def hold(path: Path, _number: int) -> None:
    """Hold the lock until killed, and leave a forked worker behind that lives longer."""
    with RunFolder(path).lock():
        worker = os.fork()
        if worker == 0:
            time.sleep(60)
            os._exit(0)
        say("locked", worker)
        time.sleep(60)


@contextmanager
def announced(owner: type, name: str) -> Iterator[None]:
    """Say whenever a method begins."""
    method = getattr(owner, name)

    def call(self: object, *args: object) -> object:
        say(name, getattr(self, "done", 0) + 1)
        return method(self, *args)

    with patch.object(owner, name, call):
        yield


def train_on(path: Path, number: int) -> None:
    """Train, or go on, to the end; with AdamW or with Muon."""
    with (
        announced(Training, "train_step"),
        announced(Training, "evaluate"),
        announced(RunFolder, "save"),
        announced(RunFolder, "mark_best"),
    ):
        try:
            go(path, recipe(("adamw", "muon")[number]), seed=9)
        except InterruptedRunError as error:
            say("interrupted", error.status)
            os._exit(error.status)
    say("finished")


def die_training(path: Path, number: int) -> None:
    """Go on with a run and be killed at one of its file operations, counted from 1."""
    with Faults(number, dying).armed():
        go(path, recipe(steps=4), seed=9)
    say("untouched")


def wait_to_be_stopped_twice(path: Path, _number: int) -> None:
    """Go on with a run, and spend its first step waiting for signals."""

    def learn(_training: Training) -> None:
        say("learning")
        late = time.monotonic() + 5
        while signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL and time.monotonic() < late:
            time.sleep(0.001)  # until the first was handled
        say("asked")
        time.sleep(5)  # the second comes at once, or never
        say("missed")

    with patch.object(Training, "train_step", learn):
        go(path, recipe(), seed=9)


def _live(task: Callable[[Path, int], None], folder: Path, number: int) -> None:
    status = 1
    try:
        say("child", os.getpid())
        task(folder, number)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def main() -> None:
    keeping = (save_on, die_saving, die_saving_again, hold)
    training = (train_on, die_training, wait_to_be_stopped_twice)
    tasks = {task.__name__: task for task in (*keeping, *training)}
    with tempfile.TemporaryDirectory() as folder:  # what torch loads when it is first needed, children have from here
        go(Path(folder), recipe(steps=4, optimizer="muon"))
    say("ready")
    for line in sys.stdin:
        task, folder, number = json.loads(line)
        child = os.fork()
        if child == 0:
            _live(tasks[task], Path(folder), number)
        say("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main()
