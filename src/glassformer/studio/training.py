"""Live training for the page: one process at a time, its events kept for its listeners, and freed without them."""

import asyncio
import atexit
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from glassformer.errors import TrainingError
from glassformer.studio.training_events import (
    ENDED,
    BeginEvent,
    Command,
    LogEvent,
    StartEvent,
    Status,
    StatusEvent,
    TrainingEvent,
    TrainingRequest,
)

PAUSE_AFTER, STOP_AFTER = 10.0, 120.0  # seconds without a listener
GRACE = 20.0  # seconds that a training has to save its last step and end
LOOK, HEARTBEAT = 0.1, 5.0  # seconds between looks for new events, and between signs of life on a silent connection
KEPT = 3  # trainings whose folders are kept
WORKER = "glassformer.studio.training_worker"

SaveModel = Callable[[Path], None]  # writes a model into a folder


class BusyError(TrainingError):
    """Another training is under way."""


class LiveTraining:
    """One training in a process of its own, with every event that it has reported as JSON."""

    def __init__(self, request: TrainingRequest, save_model: SaveModel | None = None) -> None:
        self.id = secrets.token_hex(4)
        self.events: list[str] = []
        self.status: Status = "preparing"
        self.step, self.steps, self.name = 0, 0, request.task or request.model or "training"
        self.ended = threading.Event()
        self._home = tempfile.TemporaryDirectory(prefix="glassformer-training-", ignore_cleanup_errors=True)
        self.folder = Path(self._home.name)
        self._errors = self.folder / "errors.txt"
        try:
            if save_model is not None:
                save_model(self.folder / "model")
                request = msgspec.structs.replace(request, model=str(self.folder / "model"))
            self._process = self._begun(request)
        except BaseException:
            self._home.cleanup()
            raise
        threading.Thread(target=self._follow, daemon=True).start()

    def _begun(self, request: TrainingRequest) -> subprocess.Popen[str]:
        """The process, with its request written to it."""
        self._add(BeginEvent(self.id, request.task, request.model, request.settings))
        with self._errors.open("w", encoding="utf-8") as errors:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
            process = subprocess.Popen([sys.executable, "-m", WORKER], **pipes, text=True, encoding="utf-8")
        _write(process, msgspec.json.encode((request, str(self.folder))).decode())
        return process

    @property
    def run_folder(self) -> Path:
        """Where its checkpoints and its log are."""
        return self.folder / "run"

    def command(self, command: Command) -> None:
        """Ask it to pause, to go on or to stop; it does so after the step that it is in."""
        if self.status in ENDED:
            raise TrainingError(f"the training has ended ({self.status}): begin another one")
        _write(self._process, command)

    def close(self) -> None:
        """Stop it, wait until its last step is saved, and remove its folder."""
        with suppress(TrainingError):
            self.command("stop")
        if not self.ended.wait(GRACE):
            self._process.kill()
            self.ended.wait(GRACE)
        self._home.cleanup()

    def _follow(self) -> None:
        """Keep its events until it ends."""
        assert self._process.stdout is not None and self._process.stdin is not None
        with self._process.stdout as lines:
            for line in lines:
                self._add(msgspec.json.decode(line, type=TrainingEvent))
        status = self._process.wait()
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        if self.status not in ENDED:
            self._add(StatusEvent("failed", self._why(status)))
        self.ended.set()

    def _why(self, status: int) -> str:
        said = self._errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        reason = said[-1] if said else "it may have run out of memory"
        return f"the process of the training ended with status {status}: {reason}"

    def _add(self, event: TrainingEvent) -> None:
        match event:
            case StatusEvent():
                self.status = event.status
            case StartEvent():
                self.steps, self.name = event.steps, event.task
            case LogEvent():
                self.step = event.step
        self.events.append(msgspec.json.encode(event).decode())


def _write(process: subprocess.Popen[str], line: str) -> None:
    if process.stdin is None or process.stdin.closed:
        return
    with suppress(BrokenPipeError):  # it has just ended, and its last events say how
        process.stdin.write(line + "\n")
        process.stdin.flush()


class Trainer:
    """The one training of a server, and its listeners: without any it is paused, and later stopped."""

    def __init__(self) -> None:
        self.current: LiveTraining | None = None
        self._before: list[LiveTraining] = []  # ended, with folders that can still be looked at
        self._lock = threading.Lock()
        self._listeners = 0
        self._alone_since = time.monotonic()
        self._paused_alone = False
        atexit.register(self.close)

    def start(self, request: TrainingRequest, save_model: SaveModel | None = None) -> LiveTraining:
        """Begin a training, unless one is under way."""
        with self._lock:
            if (now := self.current) is not None and now.status not in ENDED:
                done = f"step {now.step:,} of {now.steps:,}" if now.steps else now.status
                raise BusyError(f"a training is under way ({now.name}, {done}): stop it, or wait until it has ended")
            self._before += [] if now is None else [now]
            while len(self._before) >= KEPT:
                self._before.pop(0).close()
            self._alone_since, self._paused_alone = time.monotonic(), False
            self.current = LiveTraining(request, save_model)
            threading.Thread(target=self._watch, args=(self.current,), daemon=True).start()
            return self.current

    def command(self, command: Command) -> LiveTraining:
        """Pause the training, resume it, or stop it."""
        if self.current is None:
            raise TrainingError("no training is under way: begin one")
        self._paused_alone = False
        self.current.command(command)
        return self.current

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Count a listener while inside; a training that was paused because there was none goes on."""
        self._listeners += 1
        if self._paused_alone and self.current is not None:
            self._paused_alone = False
            with suppress(TrainingError):
                self.current.command("resume")
        try:
            yield
        finally:
            self._listeners -= 1
            self._alone_since = time.monotonic()

    def tend(self, now: float) -> None:
        """Pause a training that nobody has followed for a while, and stop it after a longer one."""
        alone = 0.0 if self._listeners else now - self._alone_since
        if self.current is None or self.current.status in ENDED or alone < PAUSE_AFTER:
            return
        with suppress(TrainingError):  # it has just ended
            if alone >= STOP_AFTER:
                self.current.command("stop")
            elif self.current.status == "training" and not self._paused_alone:
                self._paused_alone = True
                self.current.command("pause")

    def _watch(self, training: LiveTraining) -> None:
        while not training.ended.wait(1.0):
            self.tend(time.monotonic())

    def folders(self) -> list[Path]:
        """The run folders of the training and of those before it."""
        every = [*self._before, *([] if self.current is None else [self.current])]
        return [each.run_folder for each in reversed(every)]

    def close(self) -> None:
        """Stop the training, and remove every folder."""
        with self._lock:
            for training in [*self._before, *([] if self.current is None else [self.current])]:
                training.close()
            self._before, self.current = [], None
        atexit.unregister(self.close)


async def event_stream(trainer: Trainer, last: str = "") -> AsyncIterator[str]:
    """Server-sent events of the training, from the one after `last`, and of the next training when it begins."""
    id, _, number = last.partition("-")
    sent, silent = int(number) + 1 if number.isdecimal() else 0, 0.0
    with trainer.listening():
        while True:
            training = trainer.current
            if training is not None and training.id != id:
                id, sent = training.id, 0
            new = [] if training is None else training.events[sent:]
            if new:
                yield "".join(f"id: {id}-{sent + n}\ndata: {event}\n\n" for n, event in enumerate(new))
                sent, silent = sent + len(new), 0.0
            elif silent >= HEARTBEAT:
                yield ": still here\n\n"
                silent = 0.0
            await asyncio.sleep(LOOK)
            silent += LOOK
