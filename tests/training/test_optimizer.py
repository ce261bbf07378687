"""Optimizers against their equations, and runs with each of them that stop and go on exactly."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from glassformer.equations.adam import adam, rmsprop
from glassformer.equations.optimizers import gradient_descent, momentum, weight_decay
from glassformer.errors import ConfigError
from glassformer.layers.basic import Linear
from glassformer.layers.block import Attention, Causal
from glassformer.layers.model import Model
from glassformer.models.registry import build
from glassformer.training.optimizer import INITIALIZATIONS, Optimizers, initialize
from glassformer.training.recipe import MOMENTS, Recipe
from glassformer.training.run_folder import RunFolder
from tests.training.fake_snapshots import same_tensors
from tests.training.tiny_run import CONFIG, Optimizer, copy_of, go, recipe

OPTIMIZERS: tuple[Optimizer, ...] = get_args(Optimizer)
BETAS, RATE = (0.8, 0.95), 0.05


def by_equation(name: Optimizer, theta: Tensor, gradients: list[Tensor], decay: float) -> Tensor:
    """Where a parameter ends, by the equations of this library."""
    first, second = torch.zeros_like(theta), torch.zeros_like(theta)
    for step, g in enumerate(gradients, start=1):
        theta = weight_decay(theta, RATE, decay)
        match name:
            case "sgd":
                theta = gradient_descent(theta, g, RATE)
            case "momentum":
                theta, first = momentum(theta, g, first, RATE, BETAS[0])
            case "rmsprop":
                theta, second = rmsprop(theta, g, second, RATE, BETAS[1])
            case _:
                theta, first, second = adam(theta, g, first, second, step, RATE, BETAS)
    return theta


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name != "muon"])
@given(seed=st.integers(0, 2**16), steps=st.integers(1, 5), decay=st.sampled_from([0.0, 0.3]))
def test_updates_are_those_of_the_equations(name: Optimizer, seed: int, steps: int, decay: float) -> None:
    decay = 0.0 if name == "adam" else decay
    chance = torch.Generator().manual_seed(seed)
    layer = nn.Linear(3, 2).double()
    updates = Optimizers(layer, Recipe(learning_rate=RATE, optimizer=name, betas=BETAS, weight_decay=decay))
    begun = {key: p.detach().clone() for key, p in layer.named_parameters()}
    gradients = {
        key: [torch.randn(p.shape, generator=chance).double() for _ in range(steps)] for key, p in begun.items()
    }
    for step in range(steps):
        for key, parameter in layer.named_parameters():
            parameter.grad = gradients[key][step].clone()
        updates.update(RATE)
    for key, parameter in layer.named_parameters():
        wanted = by_equation(name, begun[key], gradients[key], decay if key == "weight" else 0.0)
        torch.testing.assert_close(parameter.detach(), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("skipped", [True, False])
def test_a_step_can_be_skipped_on_the_device(name: Optimizer, skipped: bool) -> None:
    layer = nn.Linear(3, 2)
    updates = Optimizers(layer, Recipe(optimizer=name, weight_decay=0.0 if name == "adam" else 0.1))
    before = {key: p.detach().clone() for key, p in layer.named_parameters()}
    for parameter in layer.parameters():
        parameter.grad = torch.ones_like(parameter)
    updates.update(0.1, torch.tensor(float(skipped)))
    assert same_tensors({key: p.detach() for key, p in layer.named_parameters()}, before) is skipped


@pytest.mark.parametrize("name", ["adam", "momentum", "rmsprop", "sgd"])
def test_a_run_with_each_learns_and_goes_on_exactly(name: Optimizer, tmp_path: Path) -> None:
    how = recipe(name, weight_decay=0.0, steps=12, learning_rate=0.3 if name in ("momentum", "sgd") else 0.02)
    logs = go(tmp_path / "whole", how, keep=9)
    assert logs[-1].loss < logs[0].loss
    saved = RunFolder(tmp_path / "whole").load(6)
    assert len(saved.optimizer) >= MOMENTS[name] * len(saved.model)
    part = copy_of(tmp_path / "whole", tmp_path / "part", 6)
    assert go(part, how, keep=9) == [log for log in logs if log.step > 6]


def test_adam_has_no_weight_decay() -> None:
    with pytest.raises(
        ConfigError, match="optimizer is adam and weight_decay is 0.1, wanted 0: adamw is Adam with weight de"
    ):
        Recipe(optimizer="adam", weight_decay=0.1)


@pytest.mark.parametrize("name", INITIALIZATIONS)
def test_linear_layers_begin_as_asked_and_the_rest_as_usual(name: str) -> None:
    usual, model = build(CONFIG, 3), build(CONFIG, 3)
    initialize(model, name, 3)
    again = build(CONFIG, 3)
    initialize(again, name, 3)
    assert same_tensors(dict(model.state_dict()), dict(again.state_dict()))
    drawn = {f"{path}.weight" for path, module in model.named_modules() if isinstance(module, Linear)}
    for key, weight in model.state_dict().items():
        assert torch.equal(weight, usual.state_dict()[key]) is (key not in drawn)
    weight = model.get_parameter("stack.blocks.0.feed_forward.up.weight").detach()
    inputs, outputs = weight.shape
    variance = 2 / inputs if name == "he_normal" else 2 / (inputs + outputs)
    assert float(weight.var()) == pytest.approx(variance, rel=0.3)


def apart(fused: Model) -> Model:
    """The same GPT with a query, a key and a value matrix where it has one fused `qkv`."""
    model = build(fused.config)
    for block in model.stack.blocks:
        block.attention = Attention(block.attention.shape, Causal(), dropout=block.attention.dropout)
    model.load_state_dict(split_qkv(dict(fused.state_dict())))
    return model


def split_qkv(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors by name, each fused one as its three parts."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        names = [name.replace(".qkv.", f".{part}.") for part in ("query", "key", "value")]
        found |= dict(zip(names, tensor.chunk(3, -1), strict=True)) if ".qkv." in name else {name: tensor}
    return found


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_muon_orthogonalizes_query_key_and_value_apart(decay: float) -> None:
    fused = build(replace(CONFIG, layers=2), 5)
    separate = apart(fused)
    how = Recipe(learning_rate=RATE, optimizer="muon", weight_decay=decay)
    updates = [Optimizers(model, how) for model in (fused, separate)]
    chance = torch.Generator().manual_seed(0)
    for _ in range(3):
        gradients = {n: torch.randn(p.shape, generator=chance) for n, p in fused.named_parameters()}
        for model, handed in ((fused, gradients), (separate, split_qkv(gradients))):
            for name, parameter in model.named_parameters():
                parameter.grad = handed[name].clone()
        for each in updates:
            each.update(RATE)
        updates = [resumed(model, each, how) for model, each in zip((fused, separate), updates, strict=True)]
        assert same_tensors(split_qkv(dict(fused.state_dict())), dict(separate.state_dict()))
    assert all(parameter.grad is None for parameter in fused.parameters())
    name = "stack.blocks.0.attention.qkv.weight/momentum_buffer"
    assert updates[0].state()[name].shape == fused.get_parameter(name.partition("/")[0]).shape


def resumed(model: Model, updates: Optimizers, how: Recipe) -> Optimizers:
    again = Optimizers(model, how)
    again.resume(updates.state())
    assert same_tensors(again.state(), updates.state())
    return again


@pytest.mark.parametrize("name", INITIALIZATIONS)
def test_a_fused_weight_is_drawn_as_its_three_matrices(name: str) -> None:
    fused = build(replace(CONFIG, layers=2), 5)
    separate = apart(fused)
    for model in (fused, separate):
        initialize(model, name, 7)
    assert same_tensors(split_qkv(dict(fused.state_dict())), dict(separate.state_dict()))
