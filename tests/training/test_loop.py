"""The loop: the big batch equals its parts, a stopped run goes on exactly, bad numbers stop it in time."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from glassformer.data.batches import PackedBatches
from glassformer.errors import ConfigError, TrainingError
from glassformer.layers.model import Model
from glassformer.models.build import build
from glassformer.models.gpt import GPTConfig
from glassformer.training.loop import train
from glassformer.training.objective import NEXT_TOKEN
from glassformer.training.recipe import Recipe
from glassformer.training.run_folder import RunFolder
from glassformer.training.step import Log

CONFIG = GPTConfig(vocab=17, context=8, dim=16, layers=2, heads=2, dropout=0.1)
TOKENS = np.random.default_rng(0).integers(17, size=600)
RECIPE = Recipe(steps=12, rate=1e-2, warmup=3, log_every=1, save_every=2, evaluate_every=4, decay=0.1)


def batches(rows: int = 4, seed: int = 3) -> PackedBatches:
    return PackedBatches(TOKENS, rows, 8, seed)


def run(recipe: Recipe, model: Model, folder: RunFolder | None = None, stop: int | None = None) -> list[Log]:
    logs = []
    for log in train(model, batches(), NEXT_TOKEN, recipe, folder, batches()):
        logs.append(log)
        if log.step == stop:
            break
    return logs


def weights(model: Model) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("stop", [1, 2, 5, 11])
def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path: Path, optimizer: str, stop: int) -> None:
    recipe = dataclasses.replace(RECIPE, optimizer=optimizer)
    saved = stop >= recipe.save_every  # what comes from the folder does not depend on how the model began
    whole, broken, resumed = build(CONFIG), build(CONFIG), build(CONFIG, seed=9 if saved else 0)
    unbroken = RunFolder(tmp_path / "unbroken")
    logs = run(recipe, whole, unbroken)
    folder = RunFolder(tmp_path / "stopped")
    run(recipe, broken, folder, stop)
    torch.manual_seed(123)  # whatever happened in between does not matter
    again = run(recipe, resumed, folder)
    assert torch.equal(weights(whole), weights(resumed))
    assert again == logs[len(logs) - len(again) :]
    assert (unbroken.path / "metrics.jsonl").read_text() == (folder.path / "metrics.jsonl").read_text()


def test_accumulated_parts_equal_the_big_batch() -> None:
    """1 × 16 rows and 4 × 4 rows of the same tokens, no dropout: the same gradient, so the same weights."""
    config = dataclasses.replace(CONFIG, dropout=0.0)
    model, cut = build(config).double(), build(config).double()
    recipe = dataclasses.replace(RECIPE, steps=3, warmup=1)
    list(train(model, batches(rows=16), NEXT_TOKEN, recipe))
    parts = dataclasses.replace(recipe, accumulate=4)

    class Cut(PackedBatches):
        """The same big batches, given in four parts."""

        def __next__(self) -> dict[str, Tensor]:
            if not getattr(self, "left", None):
                whole = super().__next__()
                self.left = [{key: value[i : i + 4] for key, value in whole.items()} for i in range(0, 16, 4)]
            return self.left.pop(0)

    list(train(cut, Cut(TOKENS, 16, 8, 3), NEXT_TOKEN, parts))
    assert_close(weights(cut), weights(model), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_a_small_model_learns_a_rule_by_heart(seed: int) -> None:
    """Count upwards, modulo seventeen: loss near nothing after a hundred and fifty steps, whatever the seed."""
    model = build(dataclasses.replace(CONFIG, dropout=0.0), seed)
    rule = PackedBatches(np.arange(2000) % 17, 8, 8, seed)
    recipe = Recipe(steps=150, rate=1e-2, warmup=10, log_every=150, seed=seed)
    assert list(train(model, rule, NEXT_TOKEN, recipe))[-1].loss < 0.05


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("name", ["embedding.weight", "stack.blocks.1.feed_forward.up.weight"])
def test_bad_numbers_stop_the_run_before_the_weights_are_touched(tmp_path: Path, value: float, name: str) -> None:
    model, folder = build(CONFIG), RunFolder(tmp_path)
    run(dataclasses.replace(RECIPE, steps=4, warmup=1), model, folder)
    with torch.no_grad():
        dict(model.named_parameters())[name][:] = value
    before = weights(model)
    place = "embedding.look_up" if name.startswith("embedding") else "stack.blocks.1.feed_forward.up.linear"
    with pytest.raises(TrainingError, match=rf"step 1: .* nothing was updated: {place}: "):
        list(train(model, batches(), NEXT_TOKEN, RECIPE))
    assert torch.equal(weights(model).isfinite(), before.isfinite())
    assert torch.equal(weights(model).nan_to_num(0, 0, 0), before.nan_to_num(0, 0, 0))
    assert folder.steps()[-1] == 4


def test_the_rate_follows_its_schedule() -> None:
    for schedule in ("noam", "cosine", "linear", "stable", "constant"):
        recipe = Recipe(steps=100, warmup=10, rate=1.0, schedule=schedule)
        rates = [recipe.rate_at(step) for step in range(1, 101)]
        assert max(rates) == pytest.approx(1.0) and rates[9] == pytest.approx(1.0)
        assert rates[4] == pytest.approx(0.5)
        assert (rates[-1] == 1.0) == (schedule == "constant")


def test_a_recipe_that_cannot_be_is_named() -> None:
    with pytest.raises(ConfigError, match="steps is 0"):
        Recipe(steps=0)
    with pytest.raises(ConfigError, match="warmup is 20, wanted less than steps, which is 10"):
        Recipe(steps=10, warmup=20)
    with pytest.raises(ConfigError, match="rate is -1"):
        Recipe(rate=-1.0)
