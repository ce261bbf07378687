"""Counts of parameters and operations: published, counted by torch, and the same for a shortened model."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from glassformer.equation import no_checks
from glassformer.equations import onednn_affine
from glassformer.errors import ConfigError
from glassformer.kernel_calls import ONEDNN_LINEAR, MemoryMeter, pretending
from glassformer.layers.block import Block
from glassformer.layers.config import Config
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import PRESETS, build
from glassformer.planning.devices import find_device
from glassformer.planning.example_batch import example_batch, usual_length
from glassformer.planning.figures import Operations, Plan
from glassformer.planning.kernels import checkpointed, eager, fused, with_loss_in_pieces
from glassformer.planning.operations import forward_costs, operations
from glassformer.planning.plan import parameters, plan
from glassformer.planning.planned_model import objective_of
from glassformer.planning.recorded_step import record_step
from glassformer.planning.timeline import peak
from glassformer.training.objective import LossModule, operations_per_token
from tests.models.zoo import ZOO

PUBLISHED = {
    "gpt2": 124_439_808,  # Radford et al., 2019, as counted in the public checkpoint
    "gpt2-xl": 1_557_611_200,
    "gpt3": 174_604_259_328,
    "llama-7b": 6_738_415_616,
    "t5-small": 60_506_624,
    "vit-b16": 86_567_656,
    "bert-base": 109_482_240,
    "clip-vit-b32": 151_277_313,
}
WITHOUT_PRODUCTS = ("word2vec", "skip-gram")  # of matrices: they multiply pairs of vectors
LAYERS = 6  # of the models that are recorded whole and shortened
SHORT = 12  # tokens
DEEP = GPTConfig(vocab=31, context=16, dim=16, layers=LAYERS, heads=2)


def few_layers(config: Config) -> Config:
    """A preset with at most six layers, which says as much of its counts."""
    fields = {name: value for name, value in vars(config).items() if name.endswith("layers") and value}
    return replace(config, **{name: min(value, LAYERS) for name, value in fields.items()})


CONFIGS = {**{name: few_layers(config) for name, config in PRESETS.items()}, **ZOO}
TRANSFORMERS = [
    name
    for name, config in PRESETS.items()
    if any(isinstance(each, Block) for each in build(config, device="meta").modules())
]


def lengths(config: Config) -> int:
    model = build(config, device="meta")
    usual = usual_length(model, objective_of(model))
    return usual if type(config).__name__ == "DALLEConfig" else min(usual, SHORT)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_that_were_published(name: str) -> None:
    assert parameters(build(name, device="meta")).total == PUBLISHED[name]


@pytest.mark.parametrize("name", CONFIGS)
def test_every_parameter_belongs_to_a_part(name: str) -> None:
    model = build(CONFIGS[name], device="meta")
    found = parameters(model)
    assert found.total == sum(found.by_part.values()) == model.parameter_count()


@pytest.mark.parametrize("name", CONFIGS)
def test_products_are_those_that_torch_counts(name: str) -> None:
    model = build(CONFIGS[name], device="meta")
    objective, length = objective_of(model), lengths(CONFIGS[name])
    step = record_step(model, objective, 2, length, "float32")
    with pretending(torch.device("cpu")):
        same = model.rebuilt()
        for weight, real in zip(same.parameters(), model.parameters(), strict=True):
            weight.requires_grad_(real.requires_grad)
        batch = example_batch(same, objective, 2, length)
        with no_checks(), FlopCounterMode(display=False) as counter:
            LossModule(same, objective).train()(batch)[0].backward()
    counted = zip(step.calls, step.repeats, strict=True)
    found = sum(times * call.flops for call, times in counted if call.kind == "matmul")
    assert found == counter.get_total_flops()
    assert found > 0 or name in WITHOUT_PRODUCTS


def operations_of_preset(name: str) -> Operations:
    """Those of a float32 step of a preset with few layers."""
    model = build(few_layers(PRESETS[name]), device="meta")
    objective, length = objective_of(model), lengths(few_layers(PRESETS[name]))
    step, forward = record_step(model, objective, 2, length, "float32"), forward_costs(model, objective, 2, length)
    return operations(forward, step, [], find_device("h200"), "float32")


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_products_are_nearly_all_of_a_step_on_every_machine(name: str) -> None:
    found = operations_of_preset(name)
    products = found.matmul_forward + found.matmul_backward
    assert 0.9 * 3 * found.forward <= products <= found.step / 0.99
    assert found.matmul_forward <= found.forward  # the gradients of the loss are backward work
    assert found.step == pytest.approx(3 * found.forward, rel=0.05)


def test_attention_that_drops_weights_is_one_row() -> None:
    """A GPU's kernel of attention drops them on its way, and is recorded in place of the equation."""
    rows = {row.name: row for row in plan(replace(DEEP, dropout=0.1), device="h200").operations.by_equation}
    assert rows["dropout_attention"].calls == LAYERS and "attention" not in rows
    assert rows["dropout_attention"].forward and rows["dropout_attention"].backward


def test_products_by_onednn_are_counted() -> None:
    if ONEDNN_LINEAR is None:
        pytest.skip("torch has no oneDNN here")
    x, weight = torch.ones(2, 3, 5), torch.ones(7, 5)
    with FlopCounterMode(display=False) as counter:
        ONEDNN_LINEAR(x, weight, None, "none", [], "")
    assert counter.get_total_flops() == 2 * 2 * 3 * 5 * 7


@pytest.mark.parametrize("name", ["gpt2", "t5-small", "transformer-base", "vit-tiny", "clip-vit-b32", "llama-7b"])
def test_operations_of_the_forward_pass_are_those_of_the_whole_tape(name: str) -> None:
    model = build(CONFIGS[name], device="meta")
    objective, length = objective_of(model), lengths(CONFIGS[name])
    found = sum(flops for _, flops in forward_costs(model, objective, 2, length).values())
    module, batch = LossModule(model, objective).train(), example_batch(model, objective, 2, length)
    assert 3 * found == pytest.approx(operations_per_token(module, batch) * objective.tokens(model, batch), rel=1e-9)


@pytest.mark.parametrize("name", ["gpt2", "t5-small", "clip-vit-b32", "transformer-base", "bert-base"])
def test_a_shortened_model_takes_what_the_whole_one_takes(name: str) -> None:
    model = build(CONFIGS[name], device="meta")
    steps = [
        record_step(model, objective_of(model), 2, lengths(CONFIGS[name]), "bfloat16", whole=each)
        for each in (False, True)
    ]
    assert len(steps[0].calls) < len(steps[1].calls)
    for compiler in (eager, fused, lambda step: fused(step, by_block=True)):
        short, whole = ((*compiler(step), step) for step in steps)
        for lives in (lambda s, found: found, partial(checkpointed, compiled=True)):
            assert peak(short[2], lives(short[2], short[1])) == peak(whole[2], lives(whole[2], whole[1]))
        assert sum(short[2].repeats[kernel.at] * kernel.bytes for kernel in short[0]) == sum(k.bytes for k in whole[0])


def test_the_peak_is_that_of_the_meter() -> None:
    model = build(DEEP, device="meta")
    objective = objective_of(model)
    step = record_step(model, objective, 3, 16, "float32")
    with pretending(torch.device("cpu")):
        same = model.rebuilt()
        batch = example_batch(same, objective, 3, 16)
        with MemoryMeter() as meter, no_checks():
            LossModule(same, objective).train()(batch)[0].backward()
    weights = 4 * model.parameter_count()
    outside = sum(value.nbytes for value in batch.values())  # the meter counts what it sees, weights and inputs too
    assert abs(peak(step, eager(step)[1]) + weights + outside - meter.peak) <= 0.02 * meter.peak


def test_a_compiler_keeps_less_and_checkpointing_less_still() -> None:
    model = build(DEEP, device="meta")
    step = record_step(model, objective_of(model), 64, 16, "bfloat16")
    plain, compiled = peak(step, eager(step)[1]), peak(step, fused(step)[1])
    assert peak(step, checkpointed(step, fused(step)[1], compiled=True)) < compiled < plain
    assert len(fused(step)[0]) < len(eager(step)[0])


def planned(**sizes: int) -> Plan:
    chosen = {"batch": 2, "length": 8, **sizes}
    return plan(DEEP, device="h200", batch=chosen["batch"], length=chosen["length"])


@settings(max_examples=5, deadline=None)
@given(batch=st.integers(1, 8), length=st.integers(8, 16))
def test_twice_the_batch_is_twice_the_operations(batch: int, length: int) -> None:
    one, two = (planned(batch=size, length=length) for size in (batch, 2 * batch))
    assert two.operations.matmul_forward == 2 * one.operations.matmul_forward
    assert two.operations.matmul_backward == 2 * one.operations.matmul_backward
    assert two.parameters == one.parameters
    assert two.memory.activations >= one.memory.activations
    assert two.time.seconds >= one.time.seconds
    assert two.generation is not None and one.generation is not None
    assert two.generation.kv_cache == 2 * one.generation.kv_cache


def test_attention_overtakes_at_six_times_the_width() -> None:
    assert planned().limits.crossover == 6 * DEEP.dim


def test_a_recurrent_model_is_planned_up_to_a_length_that_is_recorded() -> None:
    with pytest.raises(ConfigError, match="length is 513, wanted at most 512: a plan records each token"):
        plan("rnn", device="h200", batch=1, length=513)


def test_only_what_grows_with_the_rows_is_computed_in_pieces() -> None:
    """With as many rows as features, weights and their gradient have as many numbers as the logits."""
    config = GPTConfig(vocab=2**21, context=32, dim=32, layers=1, heads=2)
    model = build(config, device="meta")
    steps = [record_step(model, objective_of(model), rows, 32, "float32") for rows in (1, 2)]
    pieces = [with_loss_in_pieces(step, eager(step)[1], "cpu") for step in steps]
    smaller = [
        {number for number, size in zip(lives.numbers, lives.sizes, strict=True) if size < step.sizes[number]}
        for step, lives in zip(steps, pieces, strict=True)
    ]
    assert smaller[0] == smaller[1] != set()


def test_a_recording_is_the_same_on_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(few_layers(PRESETS["gpt2"]), device="meta")
    found = []
    for faster in (False, True):
        monkeypatch.setattr(onednn_affine, "onednn_is_faster", lambda faster=faster: faster)
        found.append(record_step(model, objective_of(model), 2, 64, "float32"))
    calls = [[(call.name, call.flops, call.reads, call.writes) for call in step.calls] for step in found]
    assert calls[0] == calls[1]
    assert (found[0].sizes, found[0].born, found[0].died) == (found[1].sizes, found[1].born, found[1].died)
