"""Which layers multiply 8-bit floats: linear ones inside blocks, of fitting sizes; and what stays as it was."""

import copy

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from glassformer.layers.basic import Linear
from glassformer.layers.config import Config
from glassformer.layers.float8 import Float8Linear, leave_float8, use_float8
from glassformer.layers.lora import add_lora, lora_layers
from glassformer.models.encoder import EncoderConfig
from glassformer.models.gpt import GPTConfig
from glassformer.models.linear import LinearConfig
from glassformer.models.llama import LlamaConfig
from glassformer.models.registry import build
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.models.t5 import T5Config
from glassformer.recording import Tape

CONFIGS: dict[str, tuple[Config, int]] = {  # and the layers that change
    "gpt": (GPTConfig(vocab=32, context=16, dim=32, layers=2, heads=2), 2 * 4),
    "gpt-odd": (GPTConfig(vocab=32, context=16, dim=32, layers=2, heads=2, ffn_dim=40), 2 * 2),
    "llama": (LlamaConfig(vocab=32, context=16, dim=32, layers=2, heads=2, ffn_dim=64), 2 * 7),
    "seq2seq": (Seq2SeqConfig(vocab=32, context=16, dim=32, layers=2, heads=2, ffn_dim=64), 2 * 6 + 2 * 10),
    "t5": (T5Config(vocab=32, dim=32, layers=2, heads=2, ffn_dim=64), 2 * 6 + 2 * 10),
    "encoder": (EncoderConfig(vocab=32, context=16, dim=32, layers=2, heads=2, ffn_dim=64), 2 * 6),
    "linear": (LinearConfig(inputs=16), 0),
}
EVERY = pytest.mark.parametrize("name", CONFIGS)


def float8_layers(model: nn.Module) -> dict[str, Float8Linear]:
    return {name: part for name, part in model.named_modules() if isinstance(part, Float8Linear)}


@EVERY
def test_linear_layers_inside_blocks_change_and_nothing_else(name: str) -> None:
    config, count = CONFIGS[name]
    model = build(config)
    plain, parameters = dict(model.named_modules()), dict(model.named_parameters())
    before = {key: value.clone() for key, value in model.state_dict().items()}
    assert use_float8(model) == len(float8_layers(model)) == count
    for key, layer in float8_layers(model).items():
        base = plain[key]
        assert isinstance(base, Linear) and layer.weight is base.weight and layer.parts == base.parts
        assert "blocks" in key and not any(size % 16 for size in layer.weight.shape)
    assert all(value is parameters[key] for key, value in model.named_parameters())
    after = model.state_dict()
    assert list(after) == list(before) and all(torch.equal(after[key], value) for key, value in before.items())
    assert use_float8(model) == 0, "they have changed already"
    leave_float8(model)
    assert {key: type(part) for key, part in model.named_modules()} == {k: type(part) for k, part in plain.items()}
    assert all(value is parameters[key] for key, value in model.named_parameters())


def test_the_output_is_near_and_again_the_same_afterwards() -> None:
    model, ids = build(CONFIGS["gpt"][0], seed=1), torch.arange(12)[None]
    exact = model(ids)
    use_float8(model)
    rounded = model(ids)
    assert not torch.equal(rounded, exact)
    assert (rounded - exact).norm() < 0.1 * exact.norm()
    assert_close(copy.deepcopy(model)(ids), rounded, rtol=0, atol=0)
    leave_float8(model)
    assert_close(model(ids), exact, rtol=0, atol=0)


def test_a_tape_shows_the_rounding_and_replays() -> None:
    model = build(CONFIGS["llama"][0])
    use_float8(model)
    with Tape() as tape:
        y = model(torch.arange(9)[None])
    names = [step.equation.name for step in tape.steps]
    assert names.count("float8_linear") == CONFIGS["llama"][1]
    assert_close(tape.replay(deep=True), y, rtol=0, atol=0)
    seed = torch.randn(y.shape, generator=torch.Generator().manual_seed(0))
    layer = model.get_submodule("stack.blocks.1.feed_forward.down")
    assert isinstance(layer, Float8Linear)
    assert_close(tape.reverse(seed)[layer.weight], torch.autograd.grad(y, layer.weight, seed)[0], rtol=1e-4, atol=1e-4)


def test_layers_of_lora_stay_as_they_are() -> None:
    model = build(CONFIGS["gpt"][0])
    adapted = add_lora(model, "*attention", rank=2, alpha=4.0)
    assert use_float8(model) == 2 * 2
    assert lora_layers(model) == adapted


def test_evaluation_and_training_mode_are_kept() -> None:
    for training in (True, False):
        model = build(CONFIGS["gpt"][0]).train(training)
        use_float8(model)
        assert all(part.training == training for part in model.modules())
        leave_float8(model)
        assert all(part.training == training for part in model.modules())
