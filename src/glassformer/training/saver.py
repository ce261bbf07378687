"""Save checkpoints while a device goes on training: their tensors are copied to the host, and a thread writes them."""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import torch
from torch import Tensor

from glassformer.training.checkpoint_files import Snapshot
from glassformer.training.device import Device
from glassformer.training.run_folder import RunFolder


class Saver:
    """Writes the checkpoints of a run, one at a time and in order.

    On a GPU a thread writes; `wait` raises what went wrong there. A CPU has no time to
    spare for it, and its tensors would have to be copied: there `save` returns when the checkpoint is written.
    """

    def __init__(self, folder: RunFolder, device: Device) -> None:
        self._folder = folder
        self._thread = ThreadPoolExecutor(1, "checkpoints") if device.device.type == "cuda" else None
        self._writing: Future[None] | None = None

    def save(self, snapshot: Snapshot, best: bool) -> None:
        """Save a snapshot as the run is now, and mark it as the best one so far if it is."""
        self.wait()
        length = self._folder.log_size()
        if self._thread is None:
            self._write(snapshot, best, length)
            return
        copied = replace(snapshot, model=_on_host(snapshot.model), optimizer=_on_host(snapshot.optimizer))
        done = torch.cuda.Event()
        done.record()
        self._writing = self._thread.submit(self._write, copied, best, length, done)

    def wait(self) -> None:
        """Wait until everything is written."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def close(self) -> None:
        """Wait, and end the thread."""
        try:
            self.wait()
        finally:
            if self._thread is not None:
                self._thread.shutdown()

    def _write(self, snapshot: Snapshot, best: bool, log: int, copied: torch.cuda.Event | None = None) -> None:
        if copied is not None:
            copied.synchronize()
        self._folder.save(snapshot, log)
        if best:
            self._folder.mark_best(snapshot.step)


def _on_host(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies on the host, made asynchronously and in the order of the device's work."""
    found: dict[str, Tensor] = {}
    for name, value in tensors.items():
        copy = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
        found[name] = copy.copy_(value, non_blocking=True)
    return found
