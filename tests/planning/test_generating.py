"""Generation: through windows shorter than the text, with few kernels where there are such, and what fits."""

from dataclasses import replace

import pytest

from glassformer.inference.triton_decoder import FEW_TEXTS
from glassformer.layers.config import Config
from glassformer.models.gpt import GPTConfig
from glassformer.models.llama import LlamaConfig
from glassformer.models.modern import ModernConfig
from glassformer.models.registry import PRESETS, build
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.models.t5 import T5Config
from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.devices import find_device
from glassformer.planning.figures import Generation
from glassformer.planning.generating import plan_generation
from glassformer.planning.memory import WORKSPACE
from glassformer.planning.plan import plan
from glassformer.planning.what_if import what_if

MODERN = ModernConfig(vocab=100, context=64, dim=64, layers=2, heads=4, attention="sliding_window", window=16)
LLAMA = LlamaConfig(vocab=100, context=64, dim=64, layers=2, heads=4, ffn_dim=64)


def generation(config: Config | str, batch: int, length: int) -> Generation:
    return plan_generation(build(config, device="meta"), find_device("h200"), batch, length)


def test_a_window_shorter_than_the_text_holds_as_many_tokens_as_it_reads() -> None:
    found = plan(MODERN, device="h200", batch=2).generation
    assert found is not None and found.length == 64
    key_and_value = 2 * 2 * MODERN.dim
    assert found.kv_cache == 2 * MODERN.layers * key_and_value * (16 + 1)  # and the slot of the next one


def test_a_prefill_through_a_window_reads_the_whole_text() -> None:
    through, causal = (
        generation(MODERN, 1, 64),
        generation(ModernConfig(**{**vars(MODERN), "attention": "causal"}), 1, 64),
    )
    assert 0.5 < through.prefill_seconds / causal.prefill_seconds < 2


@pytest.mark.parametrize(
    ("name", "batch", "length", "seconds", "kv_cache"),
    [
        ("gpt2", 8, 1024, 0.0005961100439359531, 301_989_888),
        ("llama-7b", 1, 2048, 0.00422082320333349, 1_073_741_824),
    ],
)
def test_steps_without_a_window_are_as_they_were(
    name: str, batch: int, length: int, seconds: float, kv_cache: int
) -> None:
    found = generation(name, batch, length)
    assert found.kv_cache == kv_cache
    assert found.seconds_per_step == pytest.approx(seconds, rel=1e-6)


def test_what_if_plans_a_sliding_window() -> None:
    found = what_if(LLAMA, 64, lambda config, length: plan(config, device="h200", batch=2, length=length))
    window = next(each for each in found if each.change.startswith("a sliding window"))
    assert window.generating is not None and found[0].generating is not None
    assert window.generating < found[0].generating


@pytest.mark.parametrize("name", ["gpt2", "transformer-base", "lstm"])
def test_the_largest_batch_that_generates_fits_and_one_more_does_not(name: str) -> None:
    device = replace(find_device("h200"), memory=1e9 if name != "lstm" else 1.02e8)
    model = build(name, device="meta")
    largest = plan_generation(model, device, 2, 64).largest_batch
    most, over = (plan_generation(model, device, batch, 64) for batch in (largest, largest + 1))
    assert most.fits and most.weights + most.kv_cache + WORKSPACE <= device.memory
    assert not over.fits and over.weights + over.kv_cache + WORKSPACE > device.memory
    assert most.largest_batch == over.largest_batch == largest > 0


def test_where_the_weights_do_not_fit_nothing_is_generated() -> None:
    found = plan_generation(build("llama-7b", device="meta"), find_device("l4"), 1, 16)
    tight = plan_generation(build("llama-7b", device="meta"), replace(find_device("l4"), memory=13e9), 1, 16)
    assert found.fits and not tight.fits and tight.largest_batch == 0


@pytest.mark.parametrize(
    ("config", "few"),
    [
        (LLAMA, True),
        (replace(LLAMA, window=16), False),
        (GPTConfig(vocab=100, context=64, dim=64, layers=2, heads=4), True),
        (ModernConfig(vocab=100, context=64, dim=64, layers=2, heads=4), False),  # norms of queries and keys
        (Seq2SeqConfig(vocab=100, context=64, dim=64, layers=2, heads=4, ffn_dim=64), False),
        (T5Config(vocab=100, dim=64, layers=2, heads=4, ffn_dim=64), False),
    ],
)
def test_few_texts_take_few_kernels_only_where_the_triton_decoder_has_the_model(config: Config, few: bool) -> None:
    device = replace(find_device("h200"), bandwidth=1e18, peaks={"bfloat16": 1e24, "float32": 1e24})  # only launches
    model = build(config, device="meta")
    one, many = (plan_generation(model, device, batch, 8).seconds_per_step for batch in (1, 2 * FEW_TEXTS))
    assert (one < 0.9 * many) == few


def test_a_step_of_one_text_takes_as_long_as_its_weights_are_read() -> None:
    spec = DeviceSpec(
        name="made up", kind="cpu", memory=1e12, bandwidth=1e11, peaks={"float32": 1e13}, achievable=1.0,
        bandwidth_fraction=0.2, pointwise=1.0, launch=0.0, dispatch=0.0,
    )  # fmt: skip
    model = build(PRESETS["gpt2"], device="meta")
    slow, fast = (plan_generation(model, each, 1, 32) for each in (spec, replace(spec, bandwidth_fraction=1.0)))
    assert slow.seconds_per_step == pytest.approx(slow.weights / 2e10, rel=0.1)
    assert slow.seconds_per_step > 4 * fast.seconds_per_step
