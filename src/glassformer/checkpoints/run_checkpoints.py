"""The checkpoints of a training run: list them, find the best one, and read its weights after a check of hashes."""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from glassformer.checkpoints.tensor_files import WEIGHTS, TensorFiles
from glassformer.errors import CheckpointError, PathError
from glassformer.safe_read import read_table

MODEL_CONFIG = "model.json"  # in a run folder: the model's configuration and labels, in the native format
LORA_ALPHA = "lora_alpha"  # in the same file, if the run trains LoRA layers
FINISHED = "finished"  # in the same file, once the model beside the checkpoints is that of the run's end
BEST, MANIFEST, OPTIMIZER = "best.json", "manifest.json", "optimizer.safetensors"
AVERAGE = "average/"  # before the name of a weight: its moving average, among the optimizer's tensors
STEP_FOLDER = re.compile(r"step-(\d{8,})")


class CheckpointWeights:
    """The weights of one checkpoint, or their moving average if training kept one."""

    def __init__(self, run: Path, step: int) -> None:
        steps = checkpoint_steps(run)
        if step not in steps:
            there = ", ".join(map(str, steps)) or "none"
            raise PathError(f"{run}: holds no checkpoint of step {step}; there are: {there}")
        self.folder = run / f"step-{step:08d}"
        model, optimizer = (TensorFiles(_as_saved(self.folder, file)) for file in (WEIGHTS, OPTIMIZER))
        self._stored = {
            name: (optimizer, AVERAGE + name) if AVERAGE + name in optimizer.shapes else (model, name)
            for name in model.shapes
        }
        self.shapes = {name: source.shapes[stored] for name, (source, stored) in self._stored.items()}
        self.dtype: torch.dtype = model.dtype

    def keep(self, names: Iterable[str]) -> None:
        """Keep these tensors only: a checkpoint has tied weights under each of their names."""
        self.shapes = {name: self.shapes[name] for name in names if name in self.shapes}

    def holds(self, name: str) -> bool:
        """Whether the checkpoint has a tensor of this name, kept or not."""
        return name in self._stored

    def read(self, name: str) -> Tensor:
        """One tensor, as a view of its mapped file."""
        source, stored = self._stored[name]
        return source.read(stored)


def holds_run(folder: Path) -> bool:
    """Whether a folder is that of a training run."""
    return (folder / MODEL_CONFIG).exists() or bool(checkpoint_steps(folder))


def run_model(folder: Path) -> tuple[dict[str, object], object]:
    """The configuration of a run's model in the native format, and the alpha of its LoRA layers if it trains any."""
    table = read_table(folder / MODEL_CONFIG)
    table.pop(FINISHED, None)
    return table, table.pop(LORA_ALPHA, None)


def goes_on(folder: Path) -> bool:
    """Whether a folder is that of a run that has not ended, though the model of an earlier end may be in it."""
    if not checkpoint_steps(folder) or not (folder / MODEL_CONFIG).exists():
        return False
    try:
        return read_table(folder / MODEL_CONFIG).get(FINISHED) is not True
    except CheckpointError:
        return False


def checkpoint_steps(folder: Path) -> list[int]:
    """The steps of a run that have a checkpoint, in order."""
    return sorted(int(found[1]) for path in folder.glob("step-*") if (found := STEP_FOLDER.fullmatch(path.name)))


def best_checkpoint(folder: Path) -> int | None:
    """The step that is marked as the best; None if no step is, or if the mark cannot be read."""
    try:
        content = read_table(folder / BEST).get("content")
    except CheckpointError:
        return None
    step = content.get("step") if isinstance(content, dict) else None
    return step if isinstance(step, int) else None


def _as_saved(folder: Path, name: str) -> Path:
    """The path of a checkpoint's file, if its hash is the one in the manifest."""
    content = read_table(folder / MANIFEST).get("content")
    files = content.get("files") if isinstance(content, dict) else None
    stored = files.get(name) if isinstance(files, dict) else None
    if not isinstance(stored, dict):
        raise CheckpointError(f"{folder / MANIFEST}: does not list {name}")
    try:
        with (folder / name).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointError(f"{folder / name}: cannot be read: {error.strerror}") from None
    if found != stored.get("sha256"):
        raise CheckpointError(f"{folder / name}: was altered, its hash does not match")
    return folder / name
