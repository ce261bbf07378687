"""Averages of weights against their formula, written out by hand."""

from pathlib import Path

import pytest
import torch

from glassformer.checkpoints.run_checkpoints import AVERAGE
from glassformer.equations.optimizers import exponential_moving_average
from glassformer.errors import CheckpointError, RunFolderError
from glassformer.models.registry import build
from glassformer.training.device import Device
from glassformer.training.distributed import ALONE
from glassformer.training.held_out import HeldOutLoss
from glassformer.training.loop import train
from glassformer.training.objective import NEXT_TOKEN, LossModule
from glassformer.training.optimizer import EMA, average_checkpoints
from glassformer.training.run_folder import RunFolder
from glassformer.training.step import Training
from tests.training.fake_snapshots import moment, same_tensors
from tests.training.tiny_run import CONFIG, batches, go, held_out, recipe, weights


def test_the_moving_average_is_that_of_the_equation() -> None:
    torch.manual_seed(0)
    made = Training(LossModule(build(CONFIG), NEXT_TOKEN), batches(), recipe(ema_decay=0.8), Device(), ALONE)
    wanted = {name: p.detach().clone() for name, p in made.model.named_parameters()}
    exact = {name: value.double() for name, value in wanted.items()}
    for step in range(1, 9):
        made.train_step()
        decay = min(0.8, (1 + step) / (10 + step))
        for name, parameter in made.model.named_parameters():
            wanted[name] = exponential_moving_average(wanted[name], parameter.detach(), decay)
            exact[name] = decay * exact[name] + (1 - decay) * parameter.detach().double()
    assert made.ema is not None
    assert same_tensors(made.ema.weights, wanted)
    for name, value in made.ema.weights.items():
        torch.testing.assert_close(value.double(), exact[name], rtol=1e-6, atol=1e-7)
    assert not torch.equal(weights(made.model), torch.cat([value.flatten() for value in wanted.values()]))


def test_a_short_run_is_not_evaluated_with_its_first_weights() -> None:
    """With a decay of 0.999 from the first step on, most of the average would be what training began with."""
    plain, averaged = (go(None, recipe(ema_decay=average, steps=60))[-1].validation for average in (0.0, 0.999))
    begun = HeldOutLoss(LossModule(build(CONFIG), NEXT_TOKEN), Device())(held_out())
    assert plain is not None and averaged is not None
    assert plain < 0.6 * begun and averaged < plain + 0.1 * begun


def test_evaluation_sees_the_average_and_leaves_the_weights() -> None:
    torch.manual_seed(0)
    made = Training(LossModule(build(CONFIG), NEXT_TOKEN), batches(), recipe(ema_decay=0.8), Device(), ALONE)
    for _ in range(5):
        made.train_step()
    assert made.ema is not None
    before = {name: p.detach().clone() for name, p in made.model.named_parameters()}
    average = {name: value.clone() for name, value in made.ema.weights.items()}
    found = made.evaluate(held_out())
    assert same_tensors(dict(made.model.named_parameters()), before)  # pyright: ignore[reportArgumentType]
    assert same_tensors(made.ema.weights, average)
    other = build(CONFIG)
    other.load_state_dict(average)
    assert found == HeldOutLoss(LossModule(other, NEXT_TOKEN), Device())(held_out())
    other.load_state_dict(before)
    assert found != HeldOutLoss(LossModule(other, NEXT_TOKEN), Device())(held_out())


def test_an_evaluation_that_fails_still_leaves_the_weights() -> None:
    model = build(CONFIG)
    average = EMA(model, 0.5)
    with torch.no_grad():
        model.get_parameter("embedding.weight").add_(1)
    before = weights(model)
    with pytest.raises(KeyError), average.swapped_in():
        assert not torch.equal(weights(model), before)
        raise KeyError
    assert torch.equal(weights(model), before)


def test_a_run_ends_with_its_average_in_the_model(tmp_path: Path) -> None:
    model, folder = build(CONFIG), RunFolder(tmp_path)
    list(train(model, batches(), NEXT_TOKEN, recipe(), folder))
    kept = folder.load(20)
    assert same_tensors(
        {AVERAGE + name: value for name, value in model.state_dict().items()},
        {name: value for name, value in kept.optimizer.items() if name.startswith(AVERAGE)},
    )
    assert not same_tensors(dict(model.state_dict()), kept.model)
    assert not model.training


def test_a_checkpoint_without_an_average_is_no_start_for_one(tmp_path: Path) -> None:
    go(tmp_path, recipe(ema_decay=0.0, steps=6))
    with pytest.raises(CheckpointError, match="no average of embedding.weight: `recipe.ema_decay` was 0"):
        go(tmp_path, recipe(steps=6))
    with pytest.raises(CheckpointError, match="no momentum_buffer of stack.blocks.0.*: another optimizer or another"):
        go(tmp_path, recipe("muon", ema_decay=0.0, steps=6))


@pytest.mark.parametrize("count", [1, 3, 9])
def test_the_mean_of_the_last_checkpoints(tmp_path: Path, count: int) -> None:
    folder = RunFolder(tmp_path, keep=5)
    for step in range(1, 8):
        folder.save(moment(step))
    steps = range(1, 8)[-min(count, 5) :]
    found = average_checkpoints(folder, count)
    wanted = torch.stack([moment(step).model["weight"].double() for step in steps]).mean(0)
    torch.testing.assert_close(found["weight"].double(), wanted, rtol=1e-7, atol=1e-7)
    assert found["weight"].dtype == torch.float32
    assert found["steps"] == sum(steps) // len(steps)


def test_of_nothing_there_is_no_mean(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="holds no checkpoint to average"):
        average_checkpoints(RunFolder(tmp_path), 3)
