"""The one training loop: step, log, evaluate, save; it resumes exactly and stops politely."""

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import torch
from torch import Tensor

from glassformer.data.batches import Batches
from glassformer.errors import InterruptedRunError, TrainingError
from glassformer.layers.model import Model
from glassformer.torch_private import uncompile
from glassformer.training.device import Device
from glassformer.training.distributed import ALONE, ProcessGroup
from glassformer.training.objective import LossModule, Objective
from glassformer.training.recipe import Recipe
from glassformer.training.run_folder import RunFolder
from glassformer.training.signals import StopRequest, stopping_politely
from glassformer.training.snapshots import newest, restore, take
from glassformer.training.step import Log, Training

CLOCK = ("seconds", "speed", "peak")  # of a log line; the record of a run does not depend on the clock
SIGNAL = 128  # a shell adds the number of a signal to this


def train(
    model: Model,
    batches: Batches,
    objective: Objective,
    recipe: Recipe,
    folder: RunFolder | None = None,
    validation: Batches | None = None,
    hardware: Device | None = None,
    processes: ProcessGroup = ALONE,
) -> Iterator[Log]:
    """Train a model, a log line at a time; with a folder the run is saved, and goes on where it was stopped.

    The model ends with its last weights, or with their moving average if the recipe keeps one. Without a folder to
    keep checkpoints in, it ends with the best of those that were evaluated.
    """
    with ExitStack() as stack:
        if folder is not None and processes.first and not folder.locked:
            stack.enter_context(folder.lock())
        request = StopRequest() if folder is None else stack.enter_context(stopping_politely())
        torch.manual_seed(recipe.seed + processes.rank)
        loss_module = LossModule(model, objective, recipe.r_drop)
        stack.callback(uncompile, model)
        training = Training(loss_module, batches, recipe, hardware or Device(), processes)
        try:
            yield from _Loop(training, folder, validation, request).run()
        except TrainingError as error:
            if folder is None or not folder.steps():
                raise
            raise TrainingError(
                f"{error}; the last checkpoint with finite weights is step {folder.steps()[-1]}"
            ) from error


class _Loop:
    """A training, where it is kept, and what it is held against."""

    def __init__(
        self, training: Training, folder: RunFolder | None, validation: Batches | None, request: StopRequest
    ) -> None:
        self.training, self.recipe = training, training.recipe
        self.folder, self.validation, self.request = folder, validation, request
        self.began = self.told = time.perf_counter()
        self.told_tokens = 0
        self.peak = 0.0  # operations in a second that the device is known to reach
        self.best: dict[str, Tensor] | None = None  # the best weights so far, where no folder keeps them

    def run(self) -> Iterator[Log]:
        """Step after step until the end, or until somebody asks to stop."""
        training, recipe = self.training, self.recipe
        note = self._resume()
        self.peak = training.hardware.peak() * training.processes.world_size
        training.model.train()
        while training.done < recipe.steps and not self._tired():
            training.train_step()
            log = self._log() if self._due() else None
            stop = self._stop_asked()
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

    def _tired(self) -> bool:
        return 0 < self.recipe.patience <= self.training.monitor.worse

    def _last(self) -> bool:
        return self.training.done == self.recipe.steps or self._tired()

    def _judged(self) -> bool:
        end = self.training.done == self.recipe.steps
        return self.validation is not None and (end or self.training.done % self.recipe.evaluate_every == 0)

    def _due(self) -> bool:
        return self._judged() or self._last() or self.training.done % self.recipe.log_every == 0

    def _improved(self, log: Log | None) -> bool:
        return log is not None and log.validation is not None and self.training.monitor.best_step == log.step

    def _stop_asked(self) -> int:
        """The signal to stop by, or 0; of several processes all stop at one step, and ask each other when they look."""
        asked = 0 if self.request.signal is None else self.request.signal.value
        if self.training.processes.world_size == 1:
            return asked
        if self.training.hardware.waits and self.training.done % self.recipe.log_every:
            return 0
        return self.training.processes.largest(asked, self.training.hardware.device)

    def _log(self) -> Log:
        self.training.raise_if_nonfinite()
        now = time.perf_counter()  # before the evaluation, which is not learning
        log = self.training.log(self.validation if self._judged() else None)
        speed = (log.tokens - self.told_tokens) / max(now - self.told, 1e-9)
        self.told, self.told_tokens = time.perf_counter(), log.tokens
        log = replace(log, seconds=now - self.began, speed=speed, peak=self._share(speed), note=self._noted(log))
        if self.folder is not None and self.training.processes.first:
            self.folder.log({key: value for key, value in vars(log).items() if key not in CLOCK})
        return log

    def _resume(self) -> str | None:
        if self.folder is None:
            return None
        snapshot = newest(self.folder)
        self.training.processes.wait()  # the first process clears the log only when all have read
        if self.training.processes.first:
            self.folder.rewind_log(0 if snapshot is None else snapshot.step)
            weights = sum(p.numel() * p.element_size() for p in self.training.model.parameters())
            self.folder.check_room(weights * self.recipe.copies)
        if snapshot is None:
            return None
        note = restore(self.training, snapshot, self.validation, self.folder.begun)
        best = self.training.monitor.best_step
        if best in self.folder.steps() and self.training.processes.first:
            self.folder.mark_best(best)  # it may have been killed between the save and this, or have lost a later one
        self.told_tokens = int(self.training.tokens)
        return note

    def _save(self, best: bool) -> None:
        if self.folder is None:
            return
        snapshot = take(self.training, self.validation, self.folder.begun)
        if self.training.processes.first:
            self.folder.save(snapshot)
            if best:
                self.folder.mark_best(snapshot.step)
        self.training.processes.wait()

    def _noted(self, log: Log) -> str | None:
        """The note of a log line, and why the run ends here if it ends early."""
        if not self._tired() or self.training.done == self.recipe.steps:
            return log.note
        best, at, worse = self.training.monitor.best, self.training.monitor.best_step, self.training.monitor.worse
        why = f"stopped early by recipe.patience: {worse} evaluations without a better validation loss than {best:.4g}"
        return "; ".join(filter(None, [log.note, f"{why}, at step {at}"]))

    def _share(self, speed: float) -> float:
        """The share of the device's peak; a peak that is exceeded was measured while others used the device."""
        training, reached = self.training, speed * self.training.operations
        if reached > self.peak:
            self.peak = max(training.hardware.peak() * training.processes.world_size, reached)
        return reached / self.peak
