"""Training in float8: it learns as float32 does, resumes exactly, keeps plain weights, and says where it cannot run."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.packed_batches import PackedBatches
from glassformer.errors import TrainingError
from glassformer.layers.float8 import Float8Linear
from glassformer.layers.lora import add_lora, freeze_for_lora
from glassformer.layers.model import Model
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.training import device
from glassformer.training.device import Device, choose_device
from glassformer.training.distributed import ALONE
from glassformer.training.loop import train
from glassformer.training.objective import NEXT_TOKEN, LossModule
from glassformer.training.recipe import Recipe
from glassformer.training.run import prepare_task
from glassformer.training.run_folder import RunFolder
from glassformer.training.step import Log, Training
from tests.cases import cases
from tests.training.tiny_run import CONFIG, TOKENS, assert_same_run

SMALL = GPTConfig(vocab=11, context=16, dim=32, layers=2, heads=2)
FLOAT8 = Device(float8=True)
RECIPE = Recipe(steps=60, learning_rate=3e-3, warmup_steps=5, log_every=10, evaluate_every=20, save_every=10)


def batches(seed: int = 0) -> PackedBatches:
    return PackedBatches(TOKENS, 4, 16, seed)


def learned(where: Device, model: Model, folder: RunFolder | None = None, stop: int | None = None) -> list[Log]:
    logs = []
    for log in train(model, batches(), NEXT_TOKEN, RECIPE, folder, batches(1), where):
        logs.append(log)
        if log.step == stop:
            break
    return logs


@pytest.mark.parametrize("half", [False, True], ids=["float32", "bfloat16"])
def test_the_losses_stay_close_to_those_of_float32(half: bool) -> None:
    exact, rounded = (
        [log.loss for log in learned(where, build(SMALL))] for where in (Device(), replace(FLOAT8, bf16=half))
    )
    assert exact[-1] < 0.5 * math.log(SMALL.vocab)
    assert rounded == pytest.approx(exact, rel=0.05)
    assert rounded != pytest.approx(exact, rel=1e-5), "nothing was rounded"


@cases(5)
@given(seed=st.integers(0, 2**31 - 1))
def test_the_first_gradients_point_the_same_way(seed: int) -> None:
    gradients = []
    for where in (Device(), FLOAT8):
        made = Training(LossModule(build(SMALL, seed), NEXT_TOKEN), batches(seed % 100), RECIPE, where, ALONE)
        made._backward([next(made.batches)], 0.0)
        gradients.append(torch.cat([p.grad.flatten() for p in made.weights if p.grad is not None]))
    assert torch.cosine_similarity(*gradients, dim=0) > 0.98
    assert not torch.equal(*gradients)


@pytest.mark.parametrize("stop", [10, 30])
def test_a_stopped_run_goes_on_to_the_same_bits(stop: int, tmp_path: Path) -> None:
    learned(FLOAT8, build(SMALL), RunFolder(tmp_path / "whole"))
    learned(FLOAT8, build(SMALL), RunFolder(tmp_path / "stopped"), stop)
    learned(FLOAT8, build(SMALL, seed=7), RunFolder(tmp_path / "stopped"))
    assert_same_run(tmp_path / "stopped", tmp_path / "whole")


def test_weights_stay_float32_under_their_names_and_layers_are_plain_again(tmp_path: Path) -> None:
    model, plain, folder = build(SMALL), build(SMALL), RunFolder(tmp_path)
    learned(FLOAT8, model, folder)
    assert [type(part) for part in model.modules()] == [type(part) for part in plain.modules()]
    snapshot = folder.latest()
    assert snapshot is not None and snapshot.model.keys() == plain.state_dict().keys()
    assert {value.dtype for value in snapshot.model.values()} == {torch.float32}


def test_a_run_that_is_given_up_leaves_plain_layers() -> None:
    model = build(SMALL)
    for _ in train(model, batches(), NEXT_TOKEN, RECIPE, device=FLOAT8):
        assert any(isinstance(part, Float8Linear) for part in model.modules())
        break
    assert not any(isinstance(part, Float8Linear) for part in model.modules())


def test_validation_computes_in_float8_too() -> None:
    made = [
        Training(LossModule(build(SMALL), NEXT_TOKEN), batches(), RECIPE, each, ALONE) for each in (Device(), FLOAT8)
    ]
    exact, rounded = (each.evaluate(batches(1)) for each in made)
    assert exact != rounded == pytest.approx(exact, rel=0.02)


def test_layers_beside_lora_are_frozen_and_rounded() -> None:
    model = build(SMALL)
    add_lora(model, "*attention", rank=2, alpha=4.0)
    freeze_for_lora(model, "")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    made = Training(LossModule(model, NEXT_TOKEN), batches(), RECIPE, FLOAT8, ALONE)
    for _ in range(2):
        made.train_step()
    assert any(isinstance(part, Float8Linear) for part in model.modules())
    assert all(torch.equal(value, before[name]) != value.requires_grad for name, value in model.named_parameters())


def test_a_number_that_is_not_finite_is_traced_to_its_layer() -> None:
    made = Training(LossModule(build(SMALL), NEXT_TOKEN), batches(), RECIPE, FLOAT8, ALONE)
    made.train_step()
    with torch.no_grad():
        made.model.get_parameter("stack.blocks.1.feed_forward.up.weight")[0, 0] = torch.nan
    with pytest.raises(TrainingError, match=r"stack\.blocks\.1\.feed_forward\.up\.float8_linear"):
        made.train_step()


def test_a_model_without_fitting_layers_says_so_once() -> None:
    made = Training(LossModule(build(CONFIG), NEXT_TOKEN), PackedBatches(TOKENS, 3, 6, 0), RECIPE, FLOAT8, ALONE)
    made.train_step()
    note = made.log(None).note
    assert note is not None and "float8 computes as bfloat16 does" in note
    assert made.log(None).note is None


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    monkeypatch.setattr(torch.version, "cuda", "13.0")


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(("capability", "there"), [((8, 0), False), ((8, 9), True), ((9, 0), True), ((10, 0), True)])
def test_a_gpu_needs_units_for_it(capability: tuple[int, int], there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: capability)
    said: list[str] = []
    chosen = choose_device("auto", "float8", "auto", said.append)
    assert (chosen.float8, chosen.bf16, chosen.precision) == (there, True, "float8" if there else "bfloat16")
    assert len(said) == (0 if there else 1)
    assert there or "cuda:0 computes in bfloat16 instead: float8 needs a GPU of compute capability 8.9" in said[0]
    said.clear()
    assert not choose_device("auto", "auto", "auto", said.append).float8, "nobody asked for it"
    assert not said


@pytest.mark.parametrize("bf16", [False, True])
def test_a_processor_falls_back_and_a_run_says_so_once(
    bf16: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(device, "_fast_in_bf16", lambda found: bf16)
    text = tmp_path / "text.txt"
    text.write_text("one two three four five six\n" * 200)
    said: list[str] = []
    settings = {"data.path": str(text), "recipe.steps": 2, "run.device": "cpu", "run.precision": "float8"}
    run = prepare_task("gpt", settings, size="tiny", report=said.append)
    assert run.device == Device(bf16=bf16) and run.settings.run.precision == "float8"
    instead = "bfloat16" if bf16 else "float32"
    assert [line for line in said if "float8" in line] == [
        f"run.precision is float8, and cpu computes in {instead} instead: "
        "float8 needs a GPU of compute capability 8.9 or more"
    ]
