"""Checkpoints are written in order, with the length that the log has when they are taken, and faults are raised."""

from pathlib import Path

import pytest
import torch

from glassformer.errors import RunFolderError
from glassformer.training.checkpoint_files import Snapshot, read_manifest
from glassformer.training.device import Device
from glassformer.training.run_folder import RunFolder
from glassformer.training.saver import Saver


def snapshot(step: int) -> Snapshot:
    return Snapshot(step, {"w": torch.full((3,), float(step))}, {"m": torch.zeros(2)}, {"step": step})


def test_the_best_is_marked_and_the_log_has_its_length(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with folder.lock():
        saver = Saver(folder, Device())
        folder.log({"step": 1})
        length = folder.log_size()
        saver.save(snapshot(1), best=True)
        folder.log({"step": 2})
        saver.save(snapshot(2), best=False)
        saver.close()
    assert folder.best_step() == 1 and folder.steps() == [1, 2]
    assert read_manifest(tmp_path / "run" / "step-00000001", 1).log == length < folder.log_size()


def test_a_fault_is_raised(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with folder.lock():
        saver = Saver(folder, Device())
        saver.save(snapshot(5), best=False)
        with pytest.raises(RunFolderError, match="the folder holds step 5"):
            saver.save(snapshot(4), best=False)
        saver.close()
