"""The training loop on an accelerator: nobody waits between log lines, half precision learns alike, a stop is exact."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.data.image_batches import Augmentation, ImageBatches, channel_statistics
from glassformer.data.packed_batches import PackedBatches
from glassformer.errors import TrainingError
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.models.vit import ViTConfig
from glassformer.training.device import Device
from glassformer.training.distributed import ALONE
from glassformer.training.loop import train
from glassformer.training.objective import NEXT_TOKEN, LossModule
from glassformer.training.recipe import Recipe
from glassformer.training.run_folder import LOG, RunFolder
from glassformer.training.step import Log, Training
from glassformer.training.tasks.image import PICTURES
from glassformer.training.text_pairs import NEXT_TARGET_TOKEN
from tests.training.fake_snapshots import same
from tests.training.tiny_run import PAIR_CONFIG, pair_batches

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("default"),  # torch gives hints about float32 speed
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

CUDA = Device(torch.device("cuda", 0))
CONFIG = GPTConfig(vocab=64, context=32, dim=64, layers=2, heads=4, dropout=0.1)
VIT = ViTConfig(
    image_size=8, channels=1, patch_size=4, dim=32, layers=1, heads=2, ffn_dim=64, classes=10, image_mean=(0.5,),
    image_std=(0.5,),
)  # fmt: skip
TOKENS = (np.arange(4000) ** 2 // 7) % 64
RECIPE = Recipe(
    steps=24, learning_rate=3e-3, warmup_steps=3, weight_decay=0.1, gradient_accumulation=2, ema_decay=0.9,
    log_every=6, evaluate_every=12, save_every=4,
)  # fmt: skip


def batches() -> PackedBatches:
    return PackedBatches(TOKENS, 8, 32, 0)


def training(device: Device, recipe: Recipe) -> Training:
    torch.manual_seed(0)
    return Training(LossModule(build(CONFIG), NEXT_TOKEN), batches(), recipe, device, ALONE)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("half", [False, True], ids=["float32", "bfloat16"])
def test_nobody_waits_for_the_device_between_log_lines(optimizer: str, compiled: bool, half: bool) -> None:
    recipe = replace(RECIPE, optimizer=optimizer)  # pyright: ignore[reportArgumentType]
    made = training(replace(CUDA, compile=compiled, bf16=half), recipe)
    for _ in range(5):  # what is made once: kernels, moments, room, a graph
        made.train_step()
    made.raise_if_nonfinite()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(10):
            made.train_step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert made.done == 15
    assert made.log(None).loss < 5


def test_a_graph_reads_batches_whose_numbers_share_memory() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1), dtype=np.uint8)
    labels = [index % 10 for index in range(64)]
    augmentation = Augmentation(cutmix=0.5)  # its weights are one row, expanded

    def losses(graphed: bool) -> list[float]:
        torch.manual_seed(0)
        batches = ImageBatches(pixels, labels, 16, channel_statistics(pixels), augmentation, 0)
        made = Training(LossModule(build(VIT), PICTURES), batches, replace(RECIPE, log_every=1), CUDA, ALONE)
        assert made.graphed is not None
        made.graphed = made.graphed if graphed else None
        found = []
        for _ in range(12):
            made.train_step()
            found.append(made.log(None).loss)
        assert made.graphed is None or made.graphed.problem is None
        return found

    assert losses(graphed=True) == pytest.approx(losses(graphed=False), rel=1e-4)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_uneven_batches_do_not_wait_either(compiled: bool) -> None:
    torch.manual_seed(0)
    device = replace(CUDA, compile=compiled)
    made = Training(LossModule(build(PAIR_CONFIG), NEXT_TARGET_TOKEN), pair_batches(), RECIPE, device, ALONE)
    for _ in range(3):
        made.train_step()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(10):
            made.train_step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert made.done == 13


def test_looking_does_wait_so_that_the_tests_above_can_fail() -> None:
    made = training(CUDA, RECIPE)
    made.train_step()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with pytest.raises(RuntimeError, match="synchronizing"):
            made.raise_if_nonfinite()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_nothing_moves_after_a_bad_step_that_nobody_saw(optimizer: str) -> None:
    made = training(CUDA, replace(RECIPE, optimizer=optimizer))  # pyright: ignore[reportArgumentType]
    for _ in range(3):
        made.train_step()
    times = iter([torch.nan])
    made.model.get_parameter("stack.blocks.1.attention.qkv.weight").register_hook(lambda g: g * next(times, 1.0))
    before = {name: value.clone() for name, value in made.model.state_dict().items()}
    for _ in range(4):
        made.train_step()
    assert all(torch.equal(value, before[name]) for name, value in made.model.state_dict().items())
    with pytest.raises(TrainingError, match="step 4: the loss or its gradient is not finite, and nothing was updated"):
        made.raise_if_nonfinite()


def learned(device: Device, folder: RunFolder | None = None, stop: int | None = None) -> list[Log]:
    logs = []
    for log in train(build(CONFIG), batches(), NEXT_TOKEN, RECIPE, folder, batches(), device):
        logs.append(log)
        if log.step == stop:
            break
    return logs


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_half_precision_learns_as_full_precision_does(compiled: bool) -> None:
    calm = replace(CONFIG, dropout=0.0)

    def losses(device: Device) -> list[float]:
        torch.manual_seed(0)
        recipe = replace(RECIPE, steps=60, log_every=20)
        return [log.loss for log in train(build(calm), batches(), NEXT_TOKEN, recipe, device=device)]

    full, half = losses(CUDA), losses(replace(CUDA, bf16=True, compile=compiled))
    assert full[-1] < 0.75 * math.log(CONFIG.vocab)
    assert half == pytest.approx(full, rel=0.03)
    assert losses(Device()) == pytest.approx(full, rel=2e-3)


@pytest.mark.parametrize(
    "device",
    [CUDA, replace(CUDA, bf16=True), replace(CUDA, activation_checkpointing=True)],
    ids=["float32", "bfloat16", "recomputed"],
)
def test_a_stopped_run_goes_on_with_the_same_dropout_on_the_device(device: Device, tmp_path: Path) -> None:
    whole, stopped = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "stopped")
    learned(device, whole)
    learned(device, stopped, stop=12)
    torch.manual_seed(5)
    logs = learned(device, stopped)
    assert logs[0].note is None
    one, other = whole.latest(), stopped.latest()
    assert one is not None and other is not None
    assert one.state == other.state, "the generators of the device are part of it"
    for name, value in one.model.items():
        torch.testing.assert_close(other.model[name], value, rtol=1e-4, atol=1e-5)  # sums on a GPU have no fixed order
    if not same(one, other):
        pytest.skip("alike, but not to the bit: kernels of this device add in any order")
    assert (whole.path / LOG).read_text() == (stopped.path / LOG).read_text()
