"""LoRA layers in every model: merged equals unmerged, gradients by rule, names by pattern, frozen parameters."""

import copy

import pytest
import torch
from torch.testing import assert_close

from glassformer.errors import ConfigError
from glassformer.inference.prepare import for_inference
from glassformer.layers.basic import Linear
from glassformer.layers.lora import (
    LoRALinear,
    add_lora,
    add_lora_like,
    freeze,
    freeze_for_lora,
    lora_layers,
    matches,
    merge_layers,
    merged,
)
from glassformer.recording import Tape
from tests.models.zoo import ZOO, Specimen, specimen

NAMES = [name for name in ZOO if any(isinstance(m, Linear) for m in specimen(name).model.modules())]


def adapted(name: str, dtype: torch.dtype = torch.float64, targets: str = "*") -> Specimen:
    """A model of the zoo whose linear layers have updates that matter."""
    case = specimen(name, dtype)
    for number, layer in enumerate(add_lora(case.model, targets, rank=2, alpha=3.0).values()):
        drawn = torch.randn(layer.lora_B.shape, generator=torch.Generator().manual_seed(number), dtype=torch.float64)
        layer.lora_B.data.copy_(0.3 * drawn)
    return case


@pytest.mark.parametrize("name", NAMES)
def test_merged_equals_unmerged_and_a_new_layer_changes_nothing(name: str) -> None:
    plain, case = specimen(name), adapted(name)
    wanted, before = plain(), case()
    assert not torch.allclose(before, wanted)
    add_lora(plain.model, "*", rank=2, alpha=3.0)
    assert_close(plain(), wanted, rtol=1e-12, atol=1e-12)
    merge_layers(case.model)
    assert not lora_layers(case.model) and all(p.requires_grad for p in case.model.parameters())
    assert case.model.state_dict().keys() == specimen(name).model.state_dict().keys()
    assert_close(case(), before, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_replay_is_exact_and_reverse_equals_autograd(name: str) -> None:
    case = adapted(name)
    with Tape() as tape:
        y = case()
    seed = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=y.dtype)
    parameters = [p for layer in lora_layers(case.model).values() for p in (layer.lora_A, layer.lora_B)]
    wanted = torch.autograd.grad(y, parameters, seed, allow_unused=True)
    for deep in (False, True):
        assert torch.equal(tape.replay(deep), y)
        found = tape.reverse(seed, deep=deep)
        for parameter, reference in zip(parameters, wanted, strict=True):
            if reference is not None:
                assert_close(found[parameter], reference, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["gpt", "llama-grouped", "seq2seq", "encoder-classifier"])
def test_the_inference_form_has_the_updates_in_it(name: str) -> None:
    case = adapted(name, torch.float32)
    wanted = case()
    assert_close(for_inference(case.model, "packed")(**case.inputs), wanted, rtol=1e-4, atol=1e-4)
    assert torch.equal(case(), wanted), "the model itself was changed"


def test_a_merged_copy_leaves_the_model_alone() -> None:
    case, plain = adapted("gpt"), specimen("gpt").model
    before = case()
    assert_close(merged(case.model)(**case.inputs), before)
    assert lora_layers(case.model) and torch.equal(case(), before)
    assert merged(plain) is plain


def test_a_merge_in_half_precision_is_rounded_once() -> None:
    torch.manual_seed(0)
    base = Linear(64, 32).to(torch.bfloat16)
    base.weight.data.normal_()
    layer = LoRALinear(base, rank=4, alpha=8.0)
    layer.lora_A.data.normal_()
    layer.lora_B.data.normal_()
    exact = base.weight.double() + 2 * layer.lora_A.double() @ layer.lora_B.double()
    assert torch.equal(layer.merged().weight, exact.float().to(torch.bfloat16))


def test_dropout_acts_on_the_update_alone_and_in_training_alone() -> None:
    torch.manual_seed(0)
    base = Linear(8, 8)
    base.weight.data.normal_()
    layer, x = LoRALinear(base, rank=8, alpha=8.0, dropout=0.5), torch.randn(4000, 8)
    layer.lora_A.data.copy_(torch.eye(8))
    layer.lora_B.data.copy_(torch.eye(8))
    assert_close(layer.eval()(x), base(x) + x)
    update = layer.train()(x) - base(x)
    dropped = torch.isclose(update, torch.zeros(()), atol=1e-5)
    assert 0.48 < dropped.float().mean() < 0.52
    assert_close(update[~dropped], 2 * x[~dropped], rtol=1e-3, atol=1e-4)


def test_the_first_matrix_is_drawn_from_the_seed_and_the_second_is_zero() -> None:
    layers = [list(add_lora(specimen("gpt").model, "qkv", 4, 8.0, seed=seed).values()) for seed in (1, 1, 2)]
    assert torch.equal(layers[0][0].lora_A, layers[1][0].lora_A)
    assert not torch.equal(layers[0][0].lora_A, layers[2][0].lora_A)
    assert not torch.equal(layers[0][0].lora_A, layers[0][1].lora_A)
    assert not layers[0][0].lora_B.any()
    layer = add_lora(torch.nn.ModuleDict({"up": Linear(4096, 8)}), "up", 64, 1.0)["up"]
    assert layer.lora_A.std().item() == pytest.approx(4096**-0.5, rel=0.02)


@pytest.mark.parametrize(
    ("targets", "count"), [("*attention", 4), ("qkv", 2), ("blocks.1", 4), ("up, down", 4), ("feed_forward.u?", 2)]
)
def test_layers_are_chosen_by_any_part_of_their_name(targets: str, count: int) -> None:
    assert len(add_lora(specimen("gpt").model, targets, 1, 1.0)) == count


def test_a_pattern_matches_whole_parts_in_a_row() -> None:
    name = "stack.blocks.10.cross_attention.output"
    assert all(matches(name, p) for p in ("*attention", "output", "blocks.10", "blocks.*.cross_attention", "x,output"))
    assert not any(matches(name, p) for p in ("attention", "blocks.1", "stack.output", "Output", "", "output.weight"))


@pytest.mark.parametrize("targets", ["nope", "qkv,nope", "embedding", ""])
def test_a_pattern_that_matches_nothing_is_refused_with_the_names_there_are(targets: str) -> None:
    there = "there are stack.blocks.attention.qkv, stack.blocks.attention.output, stack.blocks.feed_forward.up"
    with pytest.raises(ConfigError, match=f"matches no linear layer of the model; {there}"):
        add_lora(specimen("gpt").model, targets, 1, 1.0)


def test_frozen_parameters_get_no_gradient() -> None:
    case = specimen("gpt")
    freeze(case.model, "embedding, positions, blocks.0")
    case().sum().backward()
    trained = {name for name, p in case.model.named_parameters() if p.grad is not None}
    assert trained == {n for n in trained if n.startswith(("stack.blocks.1.", "stack.norm."))} and len(trained) == 14
    with pytest.raises(ConfigError, match="freeze: blocks.7 matches no parameter of the model; there are embedding"):
        freeze(case.model, "blocks.7")


def test_lora_trains_its_matrices_and_the_modules_to_save() -> None:
    case = adapted("encoder-classifier", targets="*attention")
    freeze_for_lora(case.model, "classifier")
    trained = {name for name, p in case.model.named_parameters() if p.requires_grad}
    assert {name.rpartition(".")[2] for name in trained} == {"lora_A", "lora_B", "weight", "bias"}
    assert {n for n in trained if "lora" not in n} == {"classifier.weight", "classifier.bias"}
    assert len(trained) == 2 * 4 * 2 + 2


def test_another_model_gets_the_same_layers() -> None:
    one, other = adapted("t5", targets="*attention"), specimen("t5")
    add_lora_like(other.model, one.model)
    assert not torch.allclose(other(), one())
    other.model.load_state_dict(one.model.state_dict())
    assert torch.equal(other(), one())
    assert copy.deepcopy(one.model).state_dict().keys() == other.model.state_dict().keys()
