"""Plain sentences: said once, when they become true, never about a healthy run, and remembered over a stop."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.packed_batches import PackedBatches
from glassformer.models.registry import build
from glassformer.training.device import Device
from glassformer.training.held_out import HeldOutLoss
from glassformer.training.loop import train
from glassformer.training.monitor import Monitor
from glassformer.training.objective import NEXT_TOKEN, LossModule
from glassformer.training.recipe import Recipe
from glassformer.training.run_folder import LOG, RunFolder
from glassformer.training.step import Log
from tests.training.tiny_run import CONFIG, batches, go, recipe


def notes(losses: Sequence[float], held_out: Sequence[float] = (), stop: int | None = None) -> list[tuple[int, str]]:
    """What is said along two curves; at `stop` all is put into a checkpoint and taken out again."""
    monitor, found = Monitor(), []
    for step, loss in enumerate(losses, 1):
        if step == stop:
            monitor = msgspec.json.decode(msgspec.json.encode(monitor), type=Monitor)
        found.append((step, monitor.loss(step, loss, 0.1)))
        if held_out:
            found.append((step, monitor.validation(step, held_out[step - 1])))
    return [(step, note) for step, note in found if note]


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 0.3), st.floats(0.5, 5))
def test_a_healthy_run_hears_nothing(seed: int, noise: float, start: float) -> None:
    chance = np.random.default_rng(seed)
    curve = 0.3 + start * np.exp(-np.arange(100) / 20)
    losses = curve * np.exp(noise * chance.normal(size=100) / 3)
    held_out = curve + 0.1
    assert notes(losses.tolist(), held_out.tolist()) == []


@given(st.integers(2, 60))
def test_a_run_that_diverges_hears_so_once_also_when_it_was_stopped(stop: int) -> None:
    losses = [3 * math.exp(-step / 10) + 0.5 for step in range(30)] + [0.1 * step + 1 for step in range(40)]
    found = notes(losses)
    (step, note), *others = found
    assert not others and 30 < step < 45
    assert note.startswith("the loss is diverging: it has risen from 0.")
    assert note.endswith("try a learning rate below 0.1, a longer warm-up or stronger clipping")
    assert notes(losses, stop=stop) == found


def test_a_run_that_recovers_and_diverges_again_hears_so_again() -> None:
    losses = [1.0] * 5 + [5.0] * 10 + [0.1] * 40 + [5.0] * 10
    assert [step for step, _ in notes(losses)] == [6, 56]


@given(st.integers(2, 40))
def test_a_run_that_overfits_hears_so_once_also_when_it_was_stopped(stop: int) -> None:
    losses = [3 * 0.9**step for step in range(40)]
    held_out = [2 - 0.05 * min(step, 20) + 0.02 * max(step - 20, 0) for step in range(40)]
    found = notes(losses, held_out)
    assert [step for step, _ in found] == [23]  # the best was 21
    assert found[0][1].startswith(
        "the model is overfitting: validation was best at step 21, 1, and is now 1.04, although"
    )
    assert notes(losses, held_out, stop) == found


@given(st.floats(10, 1e30), st.sampled_from([2, 11, 50_000]), st.integers(2, 30))
def test_a_run_that_explodes_at_once_hears_so_once(first: float, vocab: int, stop: int) -> None:
    monitor, found = Monitor(uniform=math.log(vocab)), list[str]()
    falling = [first * vocab * 0.9**step for step in range(30)]
    for step, loss in enumerate(falling, 1):
        if step == stop:
            monitor = msgspec.json.decode(msgspec.json.encode(monitor), type=Monitor)
        found += filter(None, [monitor.loss(step, loss, 0.1)])
    (note,) = found
    wanted = (
        f"it is {falling[0]:.3g}, and a uniform guess would have {math.log(vocab):.3g}; try a learning rate below 0.1"
    )
    assert note.startswith(f"the loss is diverging: {wanted}")


@given(st.integers(2, 50_000), st.floats(1, 1.5))
def test_a_run_that_begins_near_a_uniform_guess_hears_nothing(vocab: int, times: float) -> None:
    monitor = Monitor(uniform=math.log(vocab))
    assert [monitor.loss(step, times * math.log(vocab) * 0.99**step, 0.1) for step in range(1, 20)] == [None] * 19


def test_a_rate_that_makes_a_run_explode_is_noticed_in_its_first_line() -> None:
    how = recipe(learning_rate=1e3, warmup_steps=1, ema_decay=0.0, log_every=3, steps=3, evaluate_every=3)
    (log,) = go(None, how)
    assert log.loss > 100 and log.note is not None
    assert "the loss is diverging: it is " in log.note and "a uniform guess would have 2.4" in log.note


def test_a_run_that_gets_worse_in_both_is_not_called_overfitting() -> None:
    assert notes([1 + 0.001 * step for step in range(20)], [2 + 0.1 * step for step in range(20)]) == []


def test_a_validation_loss_that_stays_is_not_called_overfitting() -> None:
    assert notes([2 - 0.01 * step for step in range(20)], [219.5555] * 20) == []


def test_sentences_are_in_the_record_of_a_run_once_over_a_stop(tmp_path: Path) -> None:
    """Random letters: what is learned of them is wrong for others."""
    chance = np.random.default_rng(0)
    few, others = (PackedBatches(chance.integers(11, size=80), 6, 6, 0) for _ in range(2))
    how = Recipe(steps=60, learning_rate=0.03, warmup_steps=2, log_every=5, evaluate_every=10, save_every=10)
    folder = RunFolder(tmp_path)
    found: list[Log] = []
    for stop in (40, None):
        for log in train(build(CONFIG), few, NEXT_TOKEN, how, folder, others):
            found.append(log)
            if log.step == stop:
                break
    lines = [json.loads(line) for line in (tmp_path / LOG).read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(5, 61, 5))
    said = [line for line in lines if line["note"]]
    assert len(said) == 1 and said[0]["note"].startswith("the model is overfitting: validation was best at step")
    assert said[0]["step"] in [log.step for log in found if log.note]


PATIENT = Recipe(
    steps=1000, learning_rate=0.03, warmup_steps=2, log_every=50, evaluate_every=5, save_every=500, patience=3
)


def few_letters() -> list[PackedBatches]:
    """A little to learn by heart, and other letters to evaluate on."""
    chance = np.random.default_rng(0)
    return [PackedBatches(chance.integers(11, size=80), 6, 6, 0) for _ in range(2)]


def test_a_patient_run_stops_early_says_so_and_keeps_the_best(tmp_path: Path) -> None:
    few, others = few_letters()
    folder = RunFolder(tmp_path)
    logs = list(train(build(CONFIG), few, NEXT_TOKEN, PATIENT, folder, others))
    values = [log.validation for log in logs]
    assert None not in values
    best = min(range(len(values)), key=lambda at: values[at] or 0.0)
    assert len(values) == best + 1 + 3 and logs[-1].step < 200
    assert folder.best_step() == logs[best].step and folder.steps()[-1] == logs[-1].step
    why = f"3 evaluations without a better validation loss than {values[best]:.4g}, at step {logs[best].step}"
    assert str(logs[-1].note).endswith(f"stopped early by recipe.patience: {why}")
    assert json.loads((tmp_path / LOG).read_text().splitlines()[-1])["note"] == logs[-1].note
    assert not any("stopped early" in (log.note or "") for log in logs[:-1])
    assert list(train(build(CONFIG), *few_letters()[:1], NEXT_TOKEN, PATIENT, folder, others)) == [], (
        "a run out of patience stays"
    )


@pytest.mark.parametrize("average", [0.0, 0.9])
@pytest.mark.parametrize("patience", [0, 3])
def test_a_run_without_a_folder_ends_with_the_best_weights(patience: int, average: float) -> None:
    few, others = few_letters()
    model = build(CONFIG)
    how = replace(PATIENT, patience=patience, ema_decay=average, steps=60)
    found = [log.validation for log in train(model, few, NEXT_TOKEN, how, None, others)]
    last, best = found[-1], min(value for value in found if value is not None)
    assert last is not None and last > best
    assert HeldOutLoss(LossModule(model, NEXT_TOKEN), Device())(others) == best


def test_a_run_without_patience_goes_on(tmp_path: Path) -> None:
    assert go(tmp_path, recipe(patience=0))[-1].step == 20
    with pytest.raises(StopIteration):
        next(iter(train(build(CONFIG), batches(), NEXT_TOKEN, recipe(), RunFolder(tmp_path))))
