"""The folder of a run: checkpoints that appear whole or not at all, the best one, the log.

A checkpoint is written under another name, flushed to the disk and renamed to `step-00001200`; only then are older
ones pruned. Whenever a run dies, its newest whole checkpoint is there.
"""

import os
import re
import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
import torch

from glassformer import durable
from glassformer.checkpoints.run_checkpoints import BEST
from glassformer.errors import BrokenCheckpointError, RunFolderError, RunFolderWarning
from glassformer.training.checkpoint_files import (
    Snapshot,
    decode,
    json_bytes,
    read_checkpoint,
    read_manifest,
    seal,
    unseal,
    write_checkpoint,
)

SPARE = 1.2  # free space required per byte of tensors: headers, the other files, disk blocks
CHECKPOINT = re.compile(r"(?P<old>\.old-)?step-(?P<step>\d{8,})(?(old)-[0-9a-f]{8})")
LOG, LOCK = "metrics.jsonl", ".lock"
RESERVED = ("step-", "broken-", ".", BEST, LOG)


class BestStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The step of the best checkpoint so far."""

    step: int


class RunFolder:
    """The checkpoints and the log of one run: save, resume, keep the newest and the best, and lose nothing."""

    def __init__(
        self, path: Path | str, keep: int = 2, report: Callable[[str], None] | None = None, every: int = 1
    ) -> None:
        if keep < 2:
            raise RunFolderError(f"keep is {keep}, wanted at least 2: one checkpoint may turn out broken")
        self.path = Path(path)
        self.keep, self.every = keep, every
        self.begun: Mapping[str, object] = {}  # the settings the run was started with, in each checkpoint
        self._report = report or _warn
        self._lock = durable.FolderLock(self.path / LOCK)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder for one trainer while inside, and clean up what a killed one left unfinished."""
        with durable.explained(f"{self.path}: cannot be locked"):
            durable.make_folder(self.path)
            self._lock.take()
        try:
            self._clear_up()
            yield
        finally:
            self._lock.give_back()

    @property
    def locked(self) -> bool:
        """Whether this object holds the lock."""
        return self._lock.held

    def save(self, snapshot: Snapshot, log: int | None = None) -> Path:
        """Write a snapshot as the newest checkpoint, then prune the oldest."""
        target = self._folder(snapshot.step)
        with durable.explained(f"{target}: not saved, earlier checkpoints are untouched"):
            self._require_sound(snapshot.step)
            durable.make_folder(self.path)
            self._require_room(int(SPARE * snapshot.nbytes), "this checkpoint")
            scratch = self.path / durable.scratch_name(f"{snapshot.step:08d}")
            try:
                self._write(scratch, snapshot, self.log_size() if log is None else log)
                self._publish(scratch, target)
            except BaseException:
                durable.discard(scratch)
                raise
        self._prune()
        return target

    def steps(self) -> list[int]:
        """Steps that have a checkpoint, in order."""
        return sorted(step for path, old, step in self._folders() if not old and path.is_dir())

    def planned(self) -> list[int]:
        """The steps with a checkpoint that every run of these settings saves: the last, and each `every` steps."""
        steps = self.steps()
        return [step for step in steps if step % self.every == 0 or step == steps[-1]]

    def load(self, step: int, device: torch.device | str = "cpu") -> Snapshot:
        """The checkpoint of one step, every byte of it verified."""
        folder = self._require_folder(step)
        with durable.explained(f"{folder}: cannot be read"):
            return read_checkpoint(folder, step, device)

    def latest(self, device: torch.device | str = "cpu") -> Snapshot | None:
        """The newest checkpoint that is whole; broken ones are reported and set aside, none is deleted."""
        tried: set[int] = set()
        while untried := [step for step in self.steps() if step not in tried]:
            step = untried[-1]
            tried.add(step)
            try:
                return self.load(step, device)
            except RunFolderError as error:
                if not self._folder(step).exists():  # pruned while it was read: look again
                    continue
                if not isinstance(error, BrokenCheckpointError):
                    raise
                self._set_aside(step, error)
        return None

    def mark_best(self, step: int) -> None:
        """Mark the best checkpoint so far, which is not pruned."""
        if step not in self.steps():
            raise RunFolderError(f"{self.path}: has no checkpoint of step {step} to mark as the best; save it first")
        with durable.explained(f"{self.path / BEST}: not written"):
            durable.replace(self.path / BEST, seal(BestStep(step)))

    def best_step(self) -> int | None:
        """The step that is marked as the best."""
        path = self.path / BEST
        if not path.exists():
            return None
        with durable.explained(f"{path}: cannot be read"):
            content = unseal(path, path.read_bytes())
        return decode(path, content, BestStep).step

    def best(self, device: torch.device | str = "cpu") -> Snapshot | None:
        """The checkpoint that is marked as the best."""
        step = self.best_step()
        return None if step is None else self.load(step, device)

    def best_or_newest(self) -> Snapshot:
        """The best checkpoint, or the newest whole one if none is marked or the best is lost, which is reported."""
        try:
            found = self.best()
        except RunFolderError as error:
            self._report(f"{error}; the newest whole checkpoint is used instead")
            found = None
        found = found or self.latest()
        if found is None:
            raise RunFolderError(f"{self.path}: holds no whole checkpoint")
        return found

    def room_needed(self, snapshot_bytes: int) -> int:
        """Bytes still needed: for the checkpoints kept, the best, and the one being written."""
        return int(SPARE * snapshot_bytes) * max(self.keep + 2 - len(self.steps()), 1)

    def check_room(self, snapshot_bytes: int) -> None:
        """Raise if the disk cannot hold the checkpoints that a run of this size will keep."""
        with durable.explained(f"{self.path}: its disk cannot be asked for room"):
            self._require_room(self.room_needed(snapshot_bytes), f"the checkpoints of a run that keeps {self.keep}")

    def log(self, record: Mapping[str, object]) -> None:
        """Add a line to the log."""
        path = self.path / LOG
        line = json_bytes(record, f"{path}: a record") + b"\n"
        with durable.explained(f"{path}: a line was not written"):
            durable.append(path, line)

    def log_size(self) -> int:
        """Bytes of the log."""
        with durable.explained(f"{self.path / LOG}: cannot be read"):
            return durable.file_size(self.path / LOG)

    def rewind_log(self, step: int) -> None:
        """Truncate the log to its length when a step was saved, or empty it for step 0 of a run without checkpoints."""
        path = self.path / LOG
        with durable.explained(f"{path}: not truncated to step {step}"):
            wanted = (
                0 if step == 0 and step not in self.steps() else read_manifest(self._require_folder(step), step).log
            )
            size = durable.file_size(path)
            if size < wanted:
                self._report(f"{path}: has {size} bytes, at step {step} it had {wanted}; lines are missing")
                wanted = path.read_bytes().rfind(b"\n") + 1 if size else 0
            if size > wanted:
                durable.shorten(path, wanted)

    def write_text(self, name: str, text: str) -> None:
        """Write a file such as config.toml atomically: a reader sees the old text or the new."""
        if name != Path(name).name or name.startswith(RESERVED) or "\0" in name or name == "":
            raise RunFolderError(f"{name!r}: is not a name for a file of a run; give a plain one such as config.toml")
        path = self.path / name
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise RunFolderError(f"{path}: not written, the text has {error.object[error.start]!r} in it") from error
        with durable.explained(f"{path}: not written"):
            durable.make_folder(self.path)
            durable.replace(path, data)

    def _folder(self, step: int) -> Path:
        return self.path / f"step-{step:08d}"

    def _folders(self) -> Iterator[tuple[Path, bool, int]]:
        """Every checkpoint folder, whether it is one that was being replaced, and its step."""
        with durable.explained(f"{self.path}: cannot be listed"):
            names = os.listdir(self.path) if self.path.exists() else []
        for name in names:
            if match := CHECKPOINT.fullmatch(name):
                yield self.path / name, match["old"] is not None, int(match["step"])

    def _require_sound(self, step: int) -> None:
        if self._lock.held and not self._lock.in_place():
            what = "is no longer the folder that this run locked: it was moved, deleted or replaced"
            raise RunFolderError(f"{self.path}: {what}; put it back and resume")
        newest = max(self.steps(), default=step)
        if step < newest:
            what = f"step {step} cannot be saved, the folder holds step {newest}"
            raise RunFolderError(f"{self.path}: {what}; resume from there, or choose another folder")

    def _require_room(self, needed: int, what: str) -> None:
        free = durable.free_bytes(self.path)
        if free < needed:
            sizes = f"{needed / 1e6:,.1f} MB wanted, {free / 1e6:,.1f} MB free"
            remedy = "free some space, keep fewer, or choose a folder on another disk"
            raise RunFolderError(f"{self.path}: no room for {what}: {sizes}; {remedy}")

    def _write(self, folder: Path, snapshot: Snapshot, log: int) -> None:
        os.mkdir(folder)
        if log:
            durable.sync(self.path / LOG)  # after a power cut, a checkpoint needs the log lines before it
        write_checkpoint(folder, snapshot, log)

    def _publish(self, scratch: Path, target: Path) -> None:
        if not os.path.lexists(target):
            durable.move(scratch, target)
            return
        old = target.with_name(f".old-{target.name}-{secrets.token_hex(4)}")
        os.rename(target, old)  # after a crash here the next lock() puts it back
        try:
            durable.move(scratch, target)
        except BaseException:
            if not target.exists():
                os.rename(old, target)
            raise
        durable.discard(old)

    def _prune(self) -> None:
        try:
            best = self.best_step()
        except RunFolderError as error:  # any checkpoint may be the best
            self._report(f"{error}; no checkpoint is pruned")
            return
        kept = {*self.planned()[-self.keep :], best}
        for step in self.steps():
            if step not in kept:
                self._try("not pruned", durable.remove, self._folder(step))

    def _clear_up(self) -> None:
        for path, old, step in list(self._folders()):
            if old and not self._folder(step).exists():
                self._try("not put back", durable.move, path, self._folder(step))
            elif old:
                self._try("not cleared up", durable.remove, path)
        for path in self.path.glob(f"{durable.SCRATCH}*"):
            self._try("not cleared up", durable.remove, path)

    def _set_aside(self, step: int, error: RunFolderError) -> None:
        aside = self.path / f"broken-{self._folder(step).name}-{secrets.token_hex(4)}"
        moved = self._try("not moved aside", durable.move, self._folder(step), aside)
        self._report(f"{error}; an older one is tried" + (f", this one is now {aside.name}" if moved else ""))

    def _try(self, outcome: str, action: Callable[..., None], *paths: Path) -> bool:
        """Do something the run can continue without, and report if it fails."""
        try:
            with durable.explained(f"{paths[0]}: {outcome}"):
                action(*paths)
        except RunFolderError as error:
            self._report(str(error))
            return False
        return True

    def _require_folder(self, step: int) -> Path:
        folder = self._folder(step)
        if not folder.is_dir():
            there = ", ".join(map(str, self.steps())) or "none"
            raise RunFolderError(f"{self.path}: holds no checkpoint of step {step}; there are: {there}")
        return folder


def _warn(text: str) -> None:
    warnings.warn(text, RunFolderWarning, stacklevel=4)
