"""Loading takes the memory of the model and of one tensor, not of two models."""

import os
import weakref
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from glassformer.checkpoints.huggingface import find_hf_model
from glassformer.checkpoints.load import empty_model, load
from glassformer.checkpoints.save import save
from glassformer.checkpoints.tensor_files import TensorFiles
from glassformer.checkpoints.tensor_map import fill_model
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from tests.checkpoints.parity_configs import NAMES, PARITY_CONFIGS, assert_equal, shaken


class Watched:
    """A source that notes how many of the tensors it gave are still held by someone."""

    def __init__(self, source: TensorFiles) -> None:
        self.source = source
        self.shapes: Mapping[str, tuple[int, ...]] = source.shapes
        self.dtype = source.dtype
        self.given: list[weakref.ref[Tensor]] = []
        self.most = 0

    def read(self, name: str) -> Tensor:
        """One tensor, and a note of those that were not let go."""
        self.most = max(self.most, sum(one() is not None for one in self.given))
        tensor = self.source.read(name)
        self.given.append(weakref.ref(tensor))
        return tensor


@pytest.mark.parametrize("name", NAMES[:3] + NAMES[-2:])
def test_one_tensor_is_held_at_a_time_and_none_is_kept(name: str, tmp_path: Path) -> None:
    model = shaken(PARITY_CONFIGS[name])
    save(model, tmp_path)
    watched = Watched(TensorFiles(tmp_path / "model.safetensors"))
    hf_model = find_hf_model(model.config)
    empty = empty_model(hf_model.config, "here")
    back = fill_model(empty, hf_model.written_rows, watched, "here", dtype=torch.bfloat16)
    assert watched.most <= 1
    assert all(one() is None for one in watched.given)
    assert_equal(back, model.bfloat16())


def test_a_model_does_not_hang_on_its_file(tmp_path: Path) -> None:
    model = shaken(PARITY_CONFIGS["GPT-2"])
    save(model, tmp_path)
    back = load(tmp_path).model
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"\xff" * path.stat().st_size)  # written over in place, which no saver of ours does
    assert_equal(back, model)


def peak() -> int:
    """The most memory this process had at once since the mark was last set, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024


def test_the_peak_is_the_model_and_little_more(tmp_path: Path) -> None:
    config = GPTConfig(vocab=100, context=16, dim=1024, layers=4, heads=4)
    with torch.device("cpu"):
        model = build(config, device="meta").to_empty(device="cpu")
    for parameter in model.parameters():
        parameter.data.fill_(1.0)
    save(model, tmp_path)
    size = 4 * model.parameter_count()
    del model, parameter
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pytest.skip("this system does not let a process reset its peak")
    before = peak()
    held = load(tmp_path)
    assert size > 200e6 and held.model.parameter_count() * 4 == size
    assert peak() - before < size + 100e6, os.uname()
