"""Numbers that are not finite: the run stops before the weights move, and says which equation made them, and where."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from glassformer.data.batches import Batch
from glassformer.errors import TrainingError
from glassformer.layers.model import Model
from glassformer.models.registry import build
from glassformer.training.device import Device
from glassformer.training.distributed import ALONE
from glassformer.training.loop import train
from glassformer.training.objective import NEXT_TOKEN, LossModule
from glassformer.training.run_folder import RunFolder
from glassformer.training.snapshots import take
from glassformer.training.step import Training
from tests.training.fake_snapshots import same, same_tensors
from tests.training.tiny_run import CONFIG, batches, go, held_out, recipe

BAD = (torch.nan, torch.inf, -torch.inf)
FOUR = replace(CONFIG, layers=2)
PARAMETERS = {
    "embedding.weight": "embedding.embed",
    "positions.weight": "positions.",
    "stack.blocks.0.attention.qkv.weight": "stack.blocks.0.attention.qkv.linear",
    "stack.blocks.1.attention.qkv.bias": "stack.blocks.1.attention.qkv.linear",
    "stack.blocks.1.feed_forward.down.weight": "stack.blocks.1.feed_forward.down.linear",
    "stack.norm.weight": "stack.norm.layer_norm",
}
PLACES = {"embedding.weight": slice(None), "stack.blocks.1.attention.qkv.bias": -1}  # all, or one of the values
LAYERS = ("stack.blocks.0.attention", "stack.blocks.1.feed_forward.up", "stack.norm", "embedding")


@dataclass(frozen=True)
class Patient(Device):
    """A processor that is treated as if looking at a number meant waiting for it."""

    @property
    def asynchronous(self) -> bool:
        return True

    def move(self, batch: Batch) -> Batch:
        return batch


def training(device: Device, optimizer: str = "adamw", **others: object) -> Training:
    torch.manual_seed(0)
    how = recipe(optimizer, **{"ema_decay": 0.0, **others})
    made = Training(LossModule(build(FOUR), NEXT_TOKEN), batches(), how, device, ALONE)
    for _ in range(3):
        made.train_step()
    return made


def copied(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in tensors.items()}


def assert_stops_untouched(made: Training, match: str) -> None:
    weights, moments = copied(made.model.state_dict()), copied(made.optimizers.state())
    with pytest.raises(TrainingError, match=rf"step 4: .*nothing was updated: {match}"):
        made.train_step()
    assert made.done == 3
    assert same_tensors(dict(made.model.state_dict()), weights)
    assert same_tensors(made.optimizers.state(), moments)


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("name", PARAMETERS)
def test_a_bad_parameter_is_named_with_the_equation_it_enters(name: str, value: float) -> None:
    made = training(Device(), "muon")
    with torch.no_grad():
        made.model.get_parameter(name).reshape(-1)[PLACES.get(name, 0)] = value
    # Minus infinity is what a mask is made of, so it counts where it turns into NaN.
    module = ".*" if value == -torch.inf else PARAMETERS[name].replace(".", r"\.")
    assert_stops_untouched(
        made, rf"{module}.*is the first that is not finite, at element .*parameter {name} is itself not finite"
    )


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("name", LAYERS)
def test_a_bad_activation_is_named_where_it_is_first_used(name: str, value: float) -> None:
    made = training(Device())
    made.model.get_submodule(name).register_forward_hook(lambda module, inputs, output: output + value)
    assert_stops_untouched(made, r"\S+: \w+ is the first that is not finite, at element ")


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("name", ["embedding.weight", "stack.blocks.1.attention.qkv.bias"])
def test_a_bad_gradient_stops_the_run_though_the_loss_is_fine(name: str, value: float) -> None:
    made = training(Device(), "muon")
    made.model.get_parameter(name).register_hook(lambda gradient: gradient * value)
    assert_stops_untouched(made, "each equation is finite when it is replayed")


@pytest.mark.parametrize("value", BAD)
def test_a_bad_loss_stops_the_run(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    made = training(Device())
    forward = LossModule.forward

    def spoiled(self: LossModule, batch: Batch, label_smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
        loss, count = forward(self, batch, label_smoothing)
        return loss + value, count

    monkeypatch.setattr(LossModule, "forward", spoiled)
    assert_stops_untouched(made, "each equation is finite when it is replayed")


def test_an_overflow_of_finite_weights_is_named_forward() -> None:
    """Single products overflow, so the order in which they are summed does not matter."""
    made = training(Device())
    with torch.no_grad():
        made.model.get_parameter("stack.blocks.1.feed_forward.up.weight").fill_(3e38)
    assert_stops_untouched(
        made, r"stack\.blocks\.1\.feed_forward\..*: \w+ is the first that is not finite, at element \["
    )


def test_an_overflow_of_a_gradient_is_named_backward() -> None:
    """Scores stay finite, since the scale is undone; the gradient of what is scaled does not."""
    made = training(Device())
    with torch.no_grad():
        made.model.get_parameter("stack.norm.weight").fill_(1e30)
        made.model.get_parameter("embedding.weight").mul_(1e-38)
        made.model.get_parameter("positions.weight").mul_(1e-38)
    assert_stops_untouched(made, "")


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("how", ["gradient", "parameter"])
def test_on_a_device_nobody_waits_for_nothing_moves_after_the_bad_step(optimizer: str, how: str) -> None:
    made = training(Patient(), optimizer)
    alike = training(Device(), optimizer)
    assert same_tensors(dict(made.model.state_dict()), dict(alike.model.state_dict()))
    name = "stack.blocks.1.attention.qkv.weight"
    if how == "gradient":
        times = iter([torch.nan])  # once: what follows would be fine, and still must not be learned
        made.model.get_parameter(name).register_hook(lambda gradient: gradient * next(times, 1.0))
    else:
        with torch.no_grad():
            made.model.get_parameter(name)[0, FOUR.dim] = torch.nan  # of the first key
    weights, moments = copied(made.model.state_dict()), copied(made.optimizers.state())
    for _ in range(4):
        made.train_step()
    assert made.done == 7
    assert same_tensors(dict(made.model.state_dict()), weights)
    if optimizer == "adamw":
        assert same_tensors(made.optimizers.state(), moments)
    module = (
        "each equation is finite"
        if how == "gradient"
        else r"stack\.blocks\.1\.attention\.qkv\.linear: linear is the first"
    )
    with pytest.raises(TrainingError, match=f"step 4: .*nothing was updated: {module}"):
        made.log(None)
    with pytest.raises(TrainingError, match="step 4: "):
        take(made)  # nor is it saved


@pytest.mark.parametrize("device", [Device(), Patient()], ids=["looks", "waits"])
def test_the_last_good_checkpoint_is_kept_and_named(tmp_path: Path, device: Device) -> None:
    folder = RunFolder(tmp_path, report=pytest.fail)
    model = build(CONFIG)
    how = recipe(save_every=3, log_every=5, evaluate_every=100)
    times = iter([1.0] * 14 + [torch.nan])  # two parts to a step: the eighth is bad
    weight = model.get_parameter("embedding.weight")
    weight.register_hook(lambda gradient: gradient * next(times, 1.0))
    with pytest.raises(TrainingError, match="step 8: .*; the last checkpoint with finite weights is step 6$"):
        list(train(model, batches(), NEXT_TOKEN, how, folder, device=device))
    assert folder.steps() == [3, 6]
    resumed, whole = go(tmp_path, how), go(None, how)
    assert resumed == whole[1:]  # the log line of step 5 was before


def test_what_waits_learns_what_looks(tmp_path: Path) -> None:
    for optimizer in ("adamw", "muon"):
        found = []
        for name, device in (("looks", Device()), ("waits", Patient())):
            folder = RunFolder(tmp_path / optimizer / name)
            model: Model = build(CONFIG)
            list(train(model, batches(), NEXT_TOKEN, recipe(optimizer, log_every=4), folder, None, device))
            found.append(folder.latest())
        assert same(*found)


def test_weights_that_an_update_made_infinite_are_not_saved(tmp_path: Path) -> None:
    """The loss of the step was fine, and so was its gradient; only the next one would show it."""
    how = recipe(
        learning_rate=1e38, warmup_steps=2, steps=6, save_every=1, weight_decay=10.0, ema_decay=0.0, evaluate_every=100
    )
    with pytest.raises(
        TrainingError, match=r"made \S+ infinite or NaN, so nothing is saved; try a learning rate below"
    ):
        go(tmp_path, how)
    assert RunFolder(tmp_path).steps() == []


def test_a_run_that_keeps_nothing_does_not_end_with_infinite_weights() -> None:
    model = build(CONFIG)
    logs = train(model, batches(), NEXT_TOKEN, recipe(steps=4, ema_decay=0.0))
    while next(logs).step < 4:
        pass
    with torch.no_grad():
        model.get_parameter("embedding.weight")[0] = torch.inf
    with pytest.raises(TrainingError, match="step 4: the update made embedding.weight infinite or NaN"):
        next(logs)


def test_an_average_that_is_not_finite_is_not_saved_either() -> None:
    made = training(Device(), ema_decay=0.5)
    assert made.ema is not None
    made.ema.weights["stack.norm.weight"][0] = torch.inf
    with pytest.raises(TrainingError, match="step 3: the update made average of stack.norm.weight infinite or NaN"):
        take(made)


@pytest.mark.parametrize("average", [0.0, 0.5])
def test_a_validation_loss_that_is_not_finite_is_said_with_its_cause(average: float, tmp_path: Path) -> None:
    made = training(Device(), ema_decay=average)
    weights = dict(made.model.named_parameters()) if made.ema is None else made.ema.weights
    with torch.no_grad():
        weights["stack.blocks.1.feed_forward.up.weight"].fill_(3e38)
    with pytest.raises(TrainingError, match=r"step 3: the validation loss is nan: stack\.blocks\.1\.feed_forward\."):
        made.log(held_out())
    with torch.no_grad():
        weights["stack.norm.weight"][0] = torch.nan
    with pytest.raises(TrainingError, match=r"step 3: the update made (average of )?stack.norm.weight infinite or NaN"):
        made.log(held_out())
