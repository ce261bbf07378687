"""The loop: the big batch equals its parts, a full disk stops it in time, the rate follows its schedule."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from glassformer import durable
from glassformer.data.batches import IGNORE, Batch
from glassformer.data.packed_batches import PackedBatches
from glassformer.data.padded_batches import PairBatches
from glassformer.errors import ConfigError, RunFolderError
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.training.device import Device
from glassformer.training.distributed import ALONE
from glassformer.training.loop import train
from glassformer.training.objective import NEXT_TOKEN, LossModule
from glassformer.training.recipe import Recipe
from glassformer.training.run_folder import RunFolder
from glassformer.training.step import Log, Training
from glassformer.training.text_pairs import NEXT_TARGET_TOKEN
from tests.training.tiny_run import PAIR_CONFIG, pair_batches, pairs

CONFIG = GPTConfig(vocab=17, context=8, dim=16, layers=2, heads=2, dropout=0.1)
TOKENS = np.random.default_rng(0).integers(17, size=600)
RECIPE = Recipe(
    steps=12, learning_rate=1e-2, warmup_steps=3, log_every=1, save_every=2, evaluate_every=4, weight_decay=0.1
)


def batches(rows: int = 4, seed: int = 3) -> PackedBatches:
    return PackedBatches(TOKENS, rows, 8, seed)


def run(folder: RunFolder) -> list[Log]:
    return list(train(build(CONFIG), batches(), NEXT_TOKEN, RECIPE, folder, batches()))


def pair_rows(rows: list[tuple[list[int], list[int]]]) -> Batch:
    """One batch of exactly these pairs, padded to its own longest."""
    return next(PairBatches(rows, 10_000, 0, 1, 2, seed=0).once())


def gradients(parts: list[Batch], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Loss sums and gradients of one step over these parts, before the update."""
    how = Recipe(steps=2, warmup_steps=1, gradient_accumulation=len(parts), max_grad_norm=1e9, label_smoothing=0.1)
    loss_module = LossModule(build(PAIR_CONFIG).to(dtype), NEXT_TARGET_TOKEN)
    training = Training(loss_module, pair_batches(), how, Device(), ALONE)
    training._backward(parts, 0)
    training.clip_gradients()
    return training.sums, torch.cat([p.grad.flatten() for p in training.model.parameters() if p.grad is not None])


@given(st.integers(0, 2**16), st.sampled_from([1, 2, 4, 8]))
@settings(max_examples=8)
def test_accumulated_parts_of_uneven_lengths_have_the_gradient_of_the_whole(seed: int, count: int) -> None:
    rows = pairs(16, seed)
    cuts = sorted(np.random.default_rng(seed).choice(np.arange(1, 16), count - 1, replace=False).tolist())
    parts = [rows[start:end] for start, end in itertools.pairwise([0, *cuts, 16])]
    sums, whole = gradients([pair_rows(rows)], torch.float64)
    other_sums, found = gradients([pair_rows(part) for part in parts], torch.float64)
    assert_close(other_sums, sums, rtol=1e-9, atol=0)
    assert_close(found, whole, rtol=1e-6, atol=1e-12)


def test_64_rows_equal_8_times_8_in_single_precision() -> None:
    rows = pairs(64)
    parts = [rows[at : at + 8] for at in range(0, 64, 8)]
    sums, whole = gradients([pair_rows(rows)], torch.float32)
    other_sums, found = gradients([pair_rows(part) for part in parts], torch.float32)
    assert_close(other_sums[0] / other_sums[1], sums[0] / sums[1], rtol=1e-6, atol=0)
    assert (found - whole).abs().max() <= 1e-6


def test_the_gradient_is_that_of_the_mean_over_all_targets() -> None:
    """Against autograd on the loss written out: not the mean of the means of parts."""
    rows = pairs(8)
    model = build(PAIR_CONFIG).double()
    batch = pair_rows(rows)
    scores = model(batch["source"], batch["target"], batch["attention_mask"])
    flat = (scores.flatten(0, 1), batch["targets"].flatten())
    torch.nn.functional.cross_entropy(*flat, ignore_index=IGNORE, label_smoothing=0.1).backward()
    wanted = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    _, found = gradients([pair_rows(rows[:1]), pair_rows(rows[1:])], torch.float64)
    assert_close(found, wanted, rtol=1e-8, atol=1e-12)


def test_a_full_disk_stops_a_run_before_its_first_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "free_bytes", lambda path: 1000)
    learned: list[object] = []
    monkeypatch.setattr(Training, "train_step", learned.append)
    with pytest.raises(RunFolderError, match="no room for the checkpoints of a run that keeps 2: .* MB wanted, 0.0 MB"):
        run(RunFolder(tmp_path / "run"))
    assert not learned and not RunFolder(tmp_path / "run").steps()


def test_a_disk_that_fills_up_later_stops_the_run_and_keeps_what_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = iter([10**9, 10**9, 10**9, 1000])  # before the first step, then two saves
    monkeypatch.setattr(durable, "free_bytes", lambda path: next(room))
    folder = RunFolder(tmp_path)
    with pytest.raises(RunFolderError, match="no room for this checkpoint"):
        run(folder)
    assert folder.steps() == [2, 4]


def test_no_run_goes_faster_than_the_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peak that was measured on a busy machine is measured again, and is never below what the run itself reaches."""
    measured = iter([1.0, 1e18, *[1.0] * 50])
    monkeypatch.setattr(Device, "peak", lambda self: next(measured))
    logs = list(train(build(CONFIG), batches(), NEXT_TOKEN, RECIPE))
    assert all(0 < log.peak < 1e-3 for log in logs), "the second measurement is believed"
    monkeypatch.setattr(Device, "peak", lambda self: 1.0)
    fractions = [log.peak for log in train(build(CONFIG), batches(), NEXT_TOKEN, RECIPE)]
    assert max(fractions) == fractions[0] == 1 and min(fractions) > 0


def test_the_rate_follows_its_schedule() -> None:
    for schedule in ("noam", "cosine", "linear", "stable", "constant"):
        recipe = Recipe(steps=100, warmup_steps=10, learning_rate=1.0, schedule=schedule)
        rates = [recipe.learning_rate_at(step) for step in range(1, 101)]
        assert max(rates) == pytest.approx(1.0) and rates[9] == pytest.approx(1.0)
        assert rates[4] == pytest.approx(0.5)
        assert (rates[-1] == 1.0) == (schedule == "constant")
    for schedule in ("cosine", "linear", "stable"):
        late = Recipe(steps=100, warmup_steps=90, learning_rate=1.0, schedule=schedule, min_lr_ratio=0.1)
        assert late.learning_rate_at(100) == pytest.approx(0.1) and late.learning_rate_at(90) == pytest.approx(1.0)


def test_a_recipe_that_cannot_be_is_named() -> None:
    with pytest.raises(ConfigError, match="steps is 0"):
        Recipe(steps=0)
    with pytest.raises(ConfigError, match="warmup_steps is 20, wanted less than steps, which is 10"):
        Recipe(steps=10, warmup_steps=20)
    with pytest.raises(ConfigError, match="learning_rate is -1"):
        Recipe(learning_rate=-1.0)
