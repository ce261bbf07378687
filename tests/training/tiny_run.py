"""A small run with everything on: dropout, accumulation, a moving average, evaluation, the best marked."""

import shutil
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from glassformer.data.batches import Batches
from glassformer.data.packed_batches import PackedBatches
from glassformer.data.padded_batches import PairBatches
from glassformer.layers.model import Model
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.training import device
from glassformer.training.loop import train
from glassformer.training.objective import NEXT_TOKEN
from glassformer.training.recipe import Recipe
from glassformer.training.run_folder import LOG, RunFolder
from glassformer.training.step import Log
from tests.training.fake_snapshots import same

device.MATRIX["cpu"] = 8  # how fast the device is matters to nobody here

CONFIG = GPTConfig(vocab=11, context=6, dim=8, layers=1, heads=2, dropout=0.2)
PAIR_CONFIG = Seq2SeqConfig(vocab=13, context=12, dim=8, layers=1, heads=2, ffn_dim=16, norm_first=True)
TOKENS = (np.arange(100) + (np.arange(100) % 7 == 0)) % 11  # counting with slips
HELD_OUT = np.arange(40) % 11
STEPS = 20  # of two batches, and an epoch has five

Optimizer = Literal["adamw", "adam", "muon", "momentum", "rmsprop", "sgd"]


def recipe(optimizer: Optimizer = "adamw", **others: object) -> Recipe:
    """How the small run is trained."""
    usual = {
        "steps": STEPS, "learning_rate": 0.02, "warmup_steps": 3, "optimizer": optimizer, "weight_decay": 0.1,
        "label_smoothing": 0.1, "gradient_accumulation": 2, "ema_decay": 0.8,
        "log_every": 1, "evaluate_every": 4, "save_every": 3,
    }  # fmt: skip
    return Recipe(**{**usual, **others})  # pyright: ignore[reportArgumentType]


def batches(seed: int = 3) -> PackedBatches:
    """What it learns from."""
    return PackedBatches(TOKENS, 3, 6, seed)


def held_out() -> PackedBatches:
    """What it is held against."""
    return PackedBatches(HELD_OUT, 3, 6, 0)


def pairs(count: int = 40, seed: int = 0) -> list[tuple[list[int], list[int]]]:
    """Pairs of uneven lengths."""
    chance = np.random.default_rng(seed)
    return [
        tuple(chance.integers(3, 13, chance.integers(1, 10)).tolist() for _ in range(2))  # pyright: ignore
        for _ in range(count)
    ]


def pair_batches(rank: int = 0, world: int = 1, tokens: int = 60) -> PairBatches:
    """Padded batches, none like another."""
    return PairBatches(pairs(), tokens, 0, 1, 2, seed=5, rank=rank, world=world)


def go(path: Path | None, how: Recipe, seed: int = 0, keep: int = 2, validation: Batches | None = None) -> list[Log]:
    """Train the small model, or go on with it, to the end; what is saved does not depend on the seed of a resumed."""
    folder = None if path is None else RunFolder(path, keep, report=pytest.fail)
    return list(train(build(CONFIG, seed), batches(), NEXT_TOKEN, how, folder, validation or held_out()))


def assert_same_run(path: Path, unbroken: Path) -> None:
    """Two folders end alike: weights, optimizer, the rest of the state, the record, which step is the best."""
    one, other = RunFolder(path, report=pytest.fail), RunFolder(unbroken)
    assert same(one.latest(), other.latest()), f"{path} does not end as the unbroken run"
    assert (path / LOG).read_text() == (unbroken / LOG).read_text()
    assert one.best_step() == other.best_step()
    assert same(one.best(), other.best())


def copy_of(path: Path, target: Path, step: int) -> Path:
    """A run as it was when a step was its newest."""
    shutil.copytree(path, target)
    for later in RunFolder(target).steps():
        if later > step:
            shutil.rmtree(target / f"step-{later:08d}")
    return target


def weights(model: Model) -> Tensor:
    """All parameters in one row."""
    return torch.cat([p.detach().flatten() for p in model.parameters()])
