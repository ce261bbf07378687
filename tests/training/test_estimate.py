"""What a run will need: counted from one step without numbers, and refused where there is less."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from glassformer.data.packed_batches import PackedBatches
from glassformer.data.padded_batches import PairBatches
from glassformer.kernel_calls import MemoryMeter
from glassformer.layers.model import Model
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.training import estimate as module
from glassformer.training.device import Device
from glassformer.training.estimate import Estimate, estimate, memory_of, readable, rough_duration
from glassformer.training.objective import NEXT_TOKEN
from glassformer.training.text_pairs import NEXT_TARGET_TOKEN
from tests.training.tiny_run import PAIR_CONFIG, TOKENS, batches, recipe

GPT = GPTConfig(vocab=11, context=6, dim=8, layers=2, heads=2)


def estimated(model: Model, **settings: object) -> Estimate:
    return estimate(model, NEXT_TOKEN, batches(), batches(), recipe(**settings), Device())


def test_tensors_are_counted_while_they_live() -> None:
    with MemoryMeter() as meter:
        one = torch.zeros(1000)
        two = one + 1
        view = two[10:]
        assert meter.alive == meter.peak == 8000
        del one
        three = view * 2
        assert meter.alive == 4000 + three.nbytes
    assert meter.made == 8000 + three.nbytes


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_every_part_is_counted(device: str) -> None:
    model = build(GPT, device=device)
    weights = 4 * model.parameter_count()
    found = estimated(model, ema_decay=0.0)
    assert (found.weights, found.gradients, found.optimizer) == (weights, weights, 2 * weights)
    assert estimated(model, ema_decay=0.9).optimizer == 3 * weights
    assert estimated(model, ema_decay=0.0, optimizer="sgd").optimizer == 0
    assert found.memory == found.overhead + 4 * weights + found.activations and found.seconds > 0


def test_activations_and_logits_are_counted() -> None:
    base = estimated(build(GPT)).activations
    assert estimated(build(replace(GPT, layers=8))).activations > 2 * base
    rows = sum(batch["ids"].numel() for batch in [next(batches().once())])
    logits = 4 * rows * (5011 - 11)
    grown = estimated(build(replace(GPT, vocab=5011), device="meta")).activations - base
    assert 1.5 * logits < grown < 5 * logits


def test_the_estimate_is_that_of_the_step_that_is_then_taken() -> None:
    model, objective = build(GPT), NEXT_TOKEN
    batch = module.largest_batch(batches(), objective)
    with MemoryMeter() as meter:
        loss, _ = module.LossModule(model, objective).train()(batch)
        loss.backward()
    planned = module.step_cost(model, objective, batch, recipe(label_smoothing=0.0, r_drop=0.0), Device())
    assert planned.peak == pytest.approx(meter.peak, rel=0.1)


def test_kernels_are_counted_for_each_shape_of_a_batch() -> None:
    model = build(PAIR_CONFIG)

    def overhead(lengths: range, steps: int = 60) -> int:
        rows = [([3] * length, [4] * length) for length in lengths for _ in range(4)]
        found = PairBatches(rows, 4 * lengths.stop, 0, 1, 2, 0)
        settings = recipe(steps=steps, gradient_accumulation=1, warmup_steps=0)
        return estimate(model, NEXT_TARGET_TOKEN, found, found, settings, Device()).overhead

    one, ten = overhead(range(9, 10)), overhead(range(1, 10))
    assert ten - one > 3 * module.KERNELS
    assert overhead(range(1, 10), steps=1) < ten - 2 * module.KERNELS
    assert module.kernel_bytes(batches(), set(), NEXT_TOKEN, recipe()) == module.KERNELS


def test_the_copies_of_a_checkpoint_are_counted_where_they_are_most() -> None:
    shapes = {module.batch_shape(each) for each in batches().once()}
    fixed = module.LIBRARIES + module.kernel_bytes(batches(), shapes, NEXT_TOKEN, recipe())
    large, small = estimated(build(replace(GPT, dim=256), device="meta")), estimated(build(GPT))
    assert large.overhead == fixed + 2 * large.optimizer - large.activations  # that of the optimizer is the larger file
    assert fixed < small.overhead < fixed + small.memory - small.overhead
    assert module.saving_bytes(5, 3, 10) == 5


def test_the_model_to_start_from_is_counted() -> None:
    model = build(GPT)
    parts = (batches(), batches(), recipe(), Device())
    alone, tuned = (estimate(model, NEXT_TOKEN, *parts, started) for started in (False, True))
    assert tuned.overhead - alone.overhead == alone.weights


def test_kernels_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_KERNELS", 5)
    assert module.kernel_bytes(batches(), set(), NEXT_TOKEN, recipe()) == 5


def test_recomputed_activations_take_less_memory_and_more_time() -> None:
    deep = build(replace(GPT, layers=12, context=32, dim=32), device="meta")
    rows = PackedBatches(TOKENS, 3, 32, 3)
    device, again = Device(), Device(activation_checkpointing=True)
    kept, less = (module.step_cost(deep, NEXT_TOKEN, next(rows.first(1)), recipe(), each) for each in (device, again))
    assert less.peak < kept.peak
    assert less.calls > kept.calls and less.made > kept.made
    assert kept.operations < less.operations < 4 / 3 * kept.operations
    one, other = (estimate(deep, NEXT_TOKEN, rows, rows, recipe(), each) for each in (device, again))
    assert other.activations < one.activations / 2 and other.weights == one.weights


def test_a_container_may_have_less_memory_than_its_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(module, "CGROUP", limit)
    whole = memory_of(torch.device("cpu"))
    for text, wanted in (("max\n", whole), ("1000000\n", 1_000_000)):
        limit.write_text(text)
        assert memory_of(torch.device("cpu")) == wanted


def test_sizes_and_times_in_words() -> None:
    assert [readable(n) for n in (5e6, 2.5e9, 104e9)] == ["5 MB", "2.5 GB", "104.0 GB"]
    assert [rough_duration(n) for n in (0.2, 90, 150, 9000, 7e6)] == [
        "1 seconds", "90 seconds", "2 minutes", "2 hours", "81 days"
    ]  # fmt: skip
