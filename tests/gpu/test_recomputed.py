"""Activation checkpointing on a GPU: far less memory, the same losses, in graphs too, and nobody waits."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.data.packed_batches import PackedBatches
from glassformer.data.packed_pairs import PackedPairBatches
from glassformer.errors import TrainingError
from glassformer.layers.lora import add_lora
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.training.config import from_settings
from glassformer.training.device import Device
from glassformer.training.distributed import ALONE
from glassformer.training.objective import NEXT_TOKEN, LossModule
from glassformer.training.recipe import Recipe
from glassformer.training.run import prepare
from glassformer.training.running_text import TextData
from glassformer.training.settings import RunSettings, TokenizerSettings
from glassformer.training.step import Training
from glassformer.training.tasks.gpt import GPTSettings
from glassformer.training.text_pairs import NEXT_TARGET_TOKEN
from tests.training.tiny_run import PAIR_CONFIG, pairs

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("default"),  # torch gives hints about float32 speed
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

CUDA = Device(torch.device("cuda", 0))
DEEP = GPTConfig(vocab=512, context=512, dim=512, layers=24, heads=8)
SMALL = GPTConfig(vocab=64, context=32, dim=64, layers=4, heads=4)
RECIPE = Recipe(steps=24, learning_rate=3e-3, warmup_steps=3, gradient_accumulation=2)
TOKENS = (np.arange(60_000) ** 2 // 7) % 64
COMPILED = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
HALF = pytest.mark.parametrize("half", [False, True], ids=["float32", "bfloat16"])
DROPOUT = pytest.mark.parametrize("dropout", [0.0, 0.2])


def training(config: GPTConfig, device: Device, rows: int = 8, rank: int = 0) -> Training:
    torch.manual_seed(0)
    model = build(config)
    if rank:
        add_lora(model, "*attention", rank, 4.0, config.dropout)
    return Training(
        LossModule(model, NEXT_TOKEN), PackedBatches(TOKENS, rows, config.context, 0), RECIPE, device, ALONE
    )


def losses(made: Training, steps: int = 8) -> list[float]:
    """The loss of each step; from the fourth on it is a graph."""
    torch.manual_seed(1)
    found = []
    for _ in range(steps):
        made.train_step()
        found.append(made.log(None).loss)
    assert made.graphed is not None and made.graphed.problem is None and made.graphed.captured
    return found


@COMPILED
@HALF
@DROPOUT
def test_eager_compiled_and_graphed_steps_have_the_same_losses(compiled: bool, half: bool, dropout: float) -> None:
    device, config = replace(CUDA, compile=compiled, bf16=half), replace(SMALL, dropout=dropout)
    kept = losses(training(config, device))
    again = losses(training(config, replace(device, activation_checkpointing=True)))
    assert again == pytest.approx(kept, rel=5e-3 if half else 1e-4)
    if dropout:  # other random numbers would show
        other = training(config, replace(device, activation_checkpointing=True))
        other.train_step()
        assert losses(other) != pytest.approx(kept, rel=1e-4)


@COMPILED
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_lora_has_the_same_losses(compiled: bool, dropout: float) -> None:
    device, config = replace(CUDA, compile=compiled), replace(SMALL, dropout=dropout)
    kept, again = (
        losses(training(config, replace(device, activation_checkpointing=on), rank=4)) for on in (False, True)
    )
    assert again == pytest.approx(kept, rel=1e-4)


@COMPILED
@DROPOUT
def test_packed_texts_have_the_same_losses(compiled: bool, dropout: float) -> None:
    config = replace(PAIR_CONFIG, dim=32, heads=2, layers=2, ffn_dim=64, dropout=dropout, attention_dropout=dropout)
    found = []
    for on in (False, True):
        torch.manual_seed(0)
        batches = PackedPairBatches(pairs(), 64, 0, 1, 2, seed=5)
        how = replace(NEXT_TARGET_TOKEN, longest=batches.longest)
        device = replace(CUDA, compile=compiled, bf16=True, activation_checkpointing=on)
        found.append(losses(Training(LossModule(build(config), how), batches, RECIPE, device, ALONE)))
    assert found[1] == pytest.approx(found[0], rel=5e-3)


def peak(device: Device, dropout: float) -> tuple[int, float]:
    """Bytes at the peak of the first steps, and the loss of the last."""
    made = training(replace(DEEP, dropout=dropout), device, rows=16)
    made.train_step()
    torch.cuda.reset_peak_memory_stats()
    made.train_step()
    return torch.cuda.max_memory_allocated(), made.log(None).loss


@COMPILED
@DROPOUT
def test_the_peak_of_a_deep_model_falls_by_a_third_at_the_same_loss(compiled: bool, dropout: float) -> None:
    device = replace(CUDA, compile=compiled, bf16=True)
    kept, loss = peak(device, dropout)
    less, same = peak(replace(device, activation_checkpointing=True), dropout)
    print(f"peak {kept / 1e9:.2f} GB kept, {less / 1e9:.2f} GB recomputed")
    assert less < 2 / 3 * kept
    assert same == pytest.approx(loss, rel=1e-3) and math.isfinite(same)


@COMPILED
def test_nobody_waits_for_the_device(compiled: bool) -> None:
    device = replace(CUDA, compile=compiled, activation_checkpointing=True)
    made = training(replace(SMALL, dropout=0.1), device)
    for _ in range(5):
        made.train_step()
    made.raise_if_nonfinite()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(5):
            made.train_step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert made.done == 10


def test_a_full_gpu_ends_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("a rose is a rose, and a thorn is a thorn. " * 2000)
    settings = GPTSettings(
        data=TextData(path=str(tmp_path / "text.txt"), batch_size=16, max_length=512),
        tokenizer=TokenizerSettings(kind="characters"),
        model=replace(DEEP, layers=8),
        recipe=Recipe(steps=4, warmup_steps=1),
        run=RunSettings(device="cuda"),
    )
    run = prepare(from_settings(settings), tmp_path / "run", [].append)
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(6e8 / torch.cuda.get_device_properties(0).total_memory)
    try:
        with pytest.raises(
            TrainingError, match="out of memory: the GPU has .* GB: .* run.activation_checkpointing=true"
        ):
            list(run.train())
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
