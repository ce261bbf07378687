"""The process of a live training: a request and commands come in as lines, events go out as lines of JSON.

It is apart from the server, so that the page stays responsive, and its memory is free again when it ends.
"""

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
import torch
from torch import Tensor

from glassformer.checkpoints.load import load
from glassformer.errors import ConfigError, GlassformerError, InterruptedRunError
from glassformer.probes.names import Names
from glassformer.recording import Tape
from glassformer.studio.attention_watch import AttentionWatch
from glassformer.studio.training_events import LogEvent, StartEvent, StatusEvent, TrainingEvent, TrainingRequest
from glassformer.training.optimizer import trainable
from glassformer.training.registry import families, keys, tasks_for
from glassformer.training.run import Run, prepare_task
from glassformer.training.step import Log

STEPS = 300  # of a training that nobody gave a length
CHECKPOINTS = 12  # that a training saves; it evaluates as often
LOGGED, REPORTED = 20_000, 2000  # log lines at most, and those among them that are events
MAPS = 40  # attention maps at most
CORPUS = "corpus.txt"  # text from the page, in the folder of the training
LAYER = re.compile(r".*?layers\.\d+")

Emit = Callable[[TrainingEvent], None]


class Control:
    """Pause, resume and stop, as lines that another thread reads; the end of the lines means stop."""

    def __init__(self) -> None:
        self._running = threading.Event()
        self._running.set()
        self.stopping = False

    def obey(self, command: str) -> None:
        """Follow one command: pause, resume or stop."""
        self.stopping = self.stopping or command == "stop"
        if command == "pause" and not self.stopping:
            self._running.clear()
        else:
            self._running.set()

    def listen(self, lines: Iterable[str]) -> None:
        """Follow commands until there are no more."""
        for line in lines:
            self.obey(line.strip())
        self.obey("stop")

    def wait(self, emit: Emit) -> None:
        """Return at once, or when a paused training is resumed or stopped."""
        if self._running.is_set():
            return
        emit(StatusEvent("paused"))
        self._running.wait()
        if not self.stopping:
            emit(StatusEvent("training"))


class LayerNorms:
    """Gradient norms by layer, read by hooks while the training loop computes the gradients."""

    def __init__(self, run: Run) -> None:
        names = Names(run.model, Tape())
        self._layer: dict[str, str] = {}
        self._squares: dict[str, Tensor] = {}
        for name, parameter in trainable(run.model).items():
            readable = names.readable(name)
            found = LAYER.match(readable)
            self._layer[name] = found[0] if found else readable.rpartition(".")[0] or readable
            parameter.register_post_accumulate_grad_hook(self._hook(name))

    def _hook(self, name: str) -> Callable[[Tensor], None]:
        def note(parameter: Tensor) -> None:
            if parameter.grad is not None:
                self._squares[name] = parameter.grad.detach().float().square().sum()

        return note

    @property
    def layers(self) -> list[str]:
        """The layers, in the order of the model."""
        return list(dict.fromkeys(self._layer.values()))

    def norms(self, grad_norm: float) -> dict[str, float]:
        """The norm of each layer after the last step; together they have `grad_norm`, which is before clipping.

        The loop divides a sum of gradients by the number of targets after the hooks have seen it, so the norms are
        scaled to the one it logs.
        """
        sums = dict.fromkeys(self.layers, 0.0)
        for name, square in self._squares.items():
            sums[self._layer[name]] += float(square)
        whole = sum(sums.values()) ** 0.5
        return {layer: square**0.5 * (grad_norm / whole if whole else 0.0) for layer, square in sums.items()}


def prepare_run(request: TrainingRequest, folder: Path, emit: Emit) -> Run:
    """The run of a request, with defaults that suit a page: frequent log lines, and checkpoints to look back at."""
    given: dict[str, object] = dict(request.settings)
    if request.model is not None:
        given["run.init"] = request.model
    if request.corpus is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CORPUS).write_text(request.corpus, encoding="utf-8")
        given["data.path"] = str(folder / CORPUS)
    steps = given.setdefault("recipe.steps", STEPS)
    every = max(-(-steps // CHECKPOINTS), 1) if isinstance(steps, int) else 1
    given.setdefault("recipe.log_every", max(steps // LOGGED, 1) if isinstance(steps, int) else 1)
    for key, value in {"recipe.evaluate_every": every, "recipe.save_every": every}.items():
        given.setdefault(key, value)
    given.setdefault("run.keep_checkpoints", CHECKPOINTS + 1)
    given.setdefault("run.compile", "no")  # compiling takes longer than a short run, and hides the gradients
    out, task = folder / "run", _task(request)
    if request.model is not None and "data.max_length" in keys(task, families(task)[0]):
        context = getattr(load(request.model).model.config, "context", None)
        if context is not None:  # a copy reads no longer texts than its model
            given.setdefault("data.max_length", context)
    return prepare_task(task, given, out=out, size="tiny", report=lambda text: emit(StatusEvent("preparing", text)))


def _task(request: TrainingRequest) -> str:
    """The task asked for, or the first that trains such a model."""
    if request.task is not None:
        return request.task
    if request.model is None:
        raise ConfigError("neither a task nor a model is given: say what to train")
    model = load(request.model).model
    found = tasks_for(model)
    if not found:
        raise ConfigError(f"no task trains a {type(model).__name__}: choose another model")
    return found[0]


def work(request: TrainingRequest, folder: Path, control: Control, emit: Emit) -> None:
    """Train as a request says, and emit events until the run has ended, whatever its end is."""
    try:
        run = prepare_run(request, folder, emit)
        norms, watch = LayerNorms(run), AttentionWatch(run, request.text, request.second)
        steps = run.settings.recipe.steps
        name = type(run.model).__name__
        out = "" if run.folder is None else str(run.folder.path)
        emit(StartEvent(run.resolved.task, name, run.parameters, steps, out, norms.layers))
        emit(StatusEvent("training"))
        _train(run, norms, watch, control, emit)
    except InterruptedRunError as error:
        emit(StatusEvent("stopped", str(error).replace(f" by {signal.SIGTERM.name}", "")))
    except GlassformerError as error:
        emit(StatusEvent("failed", str(error)))


def _train(run: Run, norms: LayerNorms, watch: AttentionWatch, control: Control, emit: Emit) -> None:
    steps = run.settings.recipe.steps
    every = max(steps // MAPS, 1)
    if watch.ready:
        emit(watch.maps(0))
    reported = max(steps // REPORTED, 1)
    asked = False  # to stop
    for log in run.train():
        if log.step % reported == 0 or log.step in (1, steps) or log.validation is not None:
            emit(log_event(log, norms.norms(log.grad_norm)))
        if watch.ready and (log.step % every == 0 or log.step == steps):
            emit(watch.maps(log.step))
        control.wait(emit)
        if control.stopping and not asked:
            asked = True
            signal.raise_signal(signal.SIGTERM)  # the loop saves the next step, and ends; a second one would kill it
    emit(StatusEvent("finished"))


def log_event(log: Log, layers: dict[str, float]) -> LogEvent:
    """A log line of the loop as an event."""
    return LogEvent(
        step=log.step,
        loss=log.loss,
        learning_rate=log.learning_rate,
        grad_norm=log.grad_norm,
        tokens=log.tokens,
        speed=log.speed,
        layers=layers,
        validation=log.validation,
        note=log.note,
        sample=log.sample,
    )


def main() -> None:
    """Read a request and the folder for it from the first line of standard input, then commands."""
    os.nice(5)  # a page that is clicked goes first
    torch.set_num_threads(max((os.cpu_count() or 1) // 2, 1))  # the page needs the other cores
    request, folder = msgspec.json.decode(sys.stdin.readline(), type=tuple[TrainingRequest, str])
    lines, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no event
    control = Control()
    threading.Thread(target=control.listen, args=(sys.stdin,), daemon=True).start()

    def emit(event: TrainingEvent) -> None:
        with suppress(BrokenPipeError):  # the server is gone, and with it the commands, which stops the run
            lines.write(msgspec.json.encode(event).decode() + "\n")
            lines.flush()

    work(request, Path(folder), control, emit)


if __name__ == "__main__":
    main()
