"""The training loop: step, log, evaluate, save; it resumes exactly, and a signal stops it after a save."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import FrameType

import torch
from torch import Tensor

from glassformer.data.batches import Batches
from glassformer.errors import InterruptedRunError, TrainingError
from glassformer.layers.float8 import leave_float8
from glassformer.layers.model import Model
from glassformer.torch_private import uncompile
from glassformer.training.device import Device
from glassformer.training.distributed import ALONE, ProcessGroup
from glassformer.training.objective import LossModule, Objective
from glassformer.training.recipe import Recipe
from glassformer.training.recomputed import keep_activations
from glassformer.training.run_folder import RunFolder
from glassformer.training.saver import Saver
from glassformer.training.snapshots import newest, restore, take
from glassformer.training.step import Log, Training

CLOCK = ("seconds", "speed", "peak")  # fields of a log line that are left out of the run's log file
SIGNAL = 128  # a shell adds the number of a signal to this
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def train(
    model: Model,
    batches: Batches,
    objective: Objective,
    recipe: Recipe,
    folder: RunFolder | None = None,
    validation: Batches | None = None,
    device: Device | None = None,
    process_group: ProcessGroup = ALONE,
) -> Iterator[Log]:
    """Train a model and yield its log lines; with a folder, checkpoints are saved, and a stopped run is resumed.

    The model ends with its last weights, or with their moving average if the recipe has one. Without a folder for
    checkpoints, it ends with the weights that had the best validation loss.
    """
    with ExitStack() as stack:
        if folder is not None and process_group.first and not folder.locked:
            stack.enter_context(folder.lock())
        request = StopRequest() if folder is None else stack.enter_context(catch_signals())
        torch.manual_seed(recipe.seed + process_group.rank)
        loss_module = LossModule(model, objective, recipe.r_drop)
        stack.callback(leave_float8, model)
        stack.callback(uncompile, model)
        stack.callback(keep_activations, model)
        training = Training(loss_module, batches, recipe, device or Device(), process_group)
        try:
            yield from _Loop(training, folder, validation, request).run()
        except TrainingError as error:
            if folder is None or not folder.steps():
                raise
            last = folder.steps()[-1]
            raise TrainingError(f"{error}; the last checkpoint with finite weights is step {last}") from error


class _Loop:
    """A training run with its folder and its validation data."""

    def __init__(
        self, training: Training, folder: RunFolder | None, validation: Batches | None, request: "StopRequest"
    ) -> None:
        self.training, self.recipe, self.process_group = training, training.recipe, training.process_group
        self.folder, self.validation, self.request = folder, validation, request
        self.began = self.logged = time.perf_counter()
        self.logged_tokens = 0
        self.peak = 0.0  # operations per second of the device
        first = self.process_group.first
        self.saver = Saver(folder, training.device) if folder is not None and first else None
        self.best: dict[str, Tensor] | None = None  # the best weights so far, where no folder has them

    def run(self) -> Iterator[Log]:
        """Take steps until the last one, until patience runs out, or until a signal; all is written when it ends."""
        try:
            yield from self._steps()
        finally:
            if self.saver is not None:
                self.saver.close()

    def _steps(self) -> Iterator[Log]:
        training, recipe = self.training, self.recipe
        note = self._resume()
        self.peak = training.device.peak() * self.process_group.world_size
        training.model.train()
        while training.done < recipe.steps and not self._out_of_patience():
            training.train_step()
            log = self._log() if self._logs() else None
            stop = self._stop_signal()
            if stop or self._last() or self._improved(log) or training.done % recipe.save_every == 0:
                self._save(best=self._improved(log))
            if self.folder is None and self._improved(log):
                self.best = training.evaluated_weights()
            if log is not None:
                yield replace(log, note=log.note or note)
                note = None
            if stop and not self._last():
                name = signal.Signals(stop).name
                what = f"stopped by {name} after step {training.done}, which is saved"
                raise InterruptedRunError(what, SIGNAL + stop)
        training.model.eval()
        if self.folder is None:
            training.require_finite()
        training.load_final_weights(self.best)

    def _out_of_patience(self) -> bool:
        return 0 < self.recipe.patience <= self.training.monitor.worse

    def _last(self) -> bool:
        return self.training.done == self.recipe.steps or self._out_of_patience()

    def _evaluates(self) -> bool:
        end = self.training.done == self.recipe.steps
        return self.validation is not None and (end or self.training.done % self.recipe.evaluate_every == 0)

    def _logs(self) -> bool:
        return self._evaluates() or self._last() or self.training.done % self.recipe.log_every == 0

    def _improved(self, log: Log | None) -> bool:
        return log is not None and log.validation is not None and self.training.monitor.best_step == log.step

    def _stop_signal(self) -> int:
        """The signal to stop by, or 0; all processes stop at the same step."""
        asked = 0 if self.request.signal is None else self.request.signal.value
        if self.process_group.world_size == 1:
            return asked
        if self.training.device.asynchronous and self.training.done % self.recipe.log_every:
            return 0
        return self.process_group.largest(asked, self.training.device.device)

    def _log(self) -> Log:
        self.training.raise_if_nonfinite()
        now = time.perf_counter()  # before the evaluation, which is not training
        log = self.training.log(self.validation if self._evaluates() else None)
        speed = (log.tokens - self.logged_tokens) / max(now - self.logged, 1e-9)
        self.logged, self.logged_tokens = time.perf_counter(), log.tokens
        log = replace(log, seconds=now - self.began, speed=speed, peak=self._of_peak(speed), note=self._note(log))
        if self.folder is not None and self.process_group.first:
            self.folder.log({key: value for key, value in vars(log).items() if key not in CLOCK})
        return log

    def _resume(self) -> str | None:
        if self.folder is None:
            return None
        snapshot = newest(self.folder)
        self.process_group.wait()  # the first process rewinds the log only when all have read
        if self.process_group.first:
            self.folder.rewind_log(0 if snapshot is None else snapshot.step)
            weights = sum(p.numel() * p.element_size() for p in self.training.model.parameters())
            self.folder.check_room(weights * self.recipe.copies)
        if snapshot is None:
            return None
        note = restore(self.training, snapshot, self.validation, self.folder.begun)
        best = self.training.monitor.best_step
        if best in self.folder.steps() and self.process_group.first:
            self.folder.mark_best(best)  # the run may have died between the save and this, or have lost a later one
        self.logged_tokens = int(self.training.tokens)
        return note

    def _save(self, best: bool) -> None:
        if self.folder is None:
            return
        snapshot = take(self.training, self.validation, self.folder.begun)
        if self.saver is not None:
            self.saver.save(snapshot, best)
        self.process_group.wait()

    def _note(self, log: Log) -> str | None:
        """The note of a log line, and why the run ends here if it ends early."""
        if not self._out_of_patience() or self.training.done == self.recipe.steps:
            return log.note
        best, at, worse = self.training.monitor.best, self.training.monitor.best_step, self.training.monitor.worse
        why = f"stopped early by recipe.patience: {worse} evaluations without a better validation loss than {best:.4g}"
        return "; ".join(filter(None, [log.note, f"{why}, at step {at}"]))

    def _of_peak(self, speed: float) -> float:
        """The fraction of the device's peak; a peak that is exceeded was measured on a busy device."""
        training, reached = self.training, speed * self.training.operations
        if reached > self.peak:
            self.peak = max(training.device.peak() * self.process_group.world_size, reached)
        return reached / self.peak


class StopRequest:
    """The signal that asked the run to stop, if one did."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._terminals = [number for number in (0, 1, 2) if os.isatty(number)]

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """Note the first signal, and restore the default action for the next one."""
        self.signal = signal.Signals(number)
        for each in SIGNALS:
            if signal.getsignal(each) == self.receive:
                # A terminal that closes sends SIGHUP twice, through the shell and by itself.
                signal.signal(each, signal.SIG_IGN if each == signal.SIGHUP else signal.SIG_DFL)
        if number == signal.SIGHUP:
            self._leave_terminal()

    def _leave_terminal(self) -> None:
        """Write to the null device from now on: writing to a terminal that is gone is an error."""
        for number in self._terminals:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number)
            os.close(null)


@contextmanager
def catch_signals() -> Iterator[StopRequest]:
    """Turn signals into a request while inside; only a main thread can handle them.

    A signal that is ignored stays ignored, as `nohup` wants it.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    handled = [each for each in SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
    before = {each: signal.signal(each, request.receive) for each in handled}
    try:
        yield request
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
