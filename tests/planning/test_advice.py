"""What is advised where nothing fits is a plan that fits, and the one before it does not."""

from dataclasses import replace

import pytest

from glassformer.models.gpt import GPTConfig
from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.figures import Plan, Workload
from glassformer.planning.memory import required
from glassformer.planning.plan import plan, what_is, what_would_fit

DEEP = GPTConfig(vocab=500, context=512, dim=128, layers=24, heads=4)
WIDE = GPTConfig(vocab=500, context=1024, dim=32, layers=1, heads=2)
GPU = DeviceSpec(
    name="small", kind="cuda", memory=1e12, bandwidth=1e11, peaks={"float32": 1e12, "bfloat16": 4e12}, interconnect=1e10
)
SHARDS = 6


def sharded(devices: int, batch: int, device: DeviceSpec = GPU) -> Plan:
    return plan(DEEP, device=device, batch=batch, length=16, strategy="fsdp", devices=devices)


def advised(model: GPTConfig | str, found: Plan) -> Workload | None:
    return what_would_fit(what_is(model), found)


@pytest.mark.parametrize(("strategy", "devices"), [("ddp", 1), ("ddp", 8), ("fsdp", 2)])
def test_the_number_of_devices_is_the_first_that_fits(strategy: str, devices: int) -> None:
    device = replace(GPU, memory=sharded(SHARDS, 2).memory.sharded)
    found = plan(DEEP, device=device, batch=2, length=16, strategy=strategy, devices=devices)
    assert not found.fits and not found.limits.batch
    assert advised(DEEP, found) == replace(found.workload, strategy="fsdp", devices=SHARDS)
    assert sharded(SHARDS, 2, device).fits and not sharded(SHARDS - 1, 2, device).fits


def test_a_smaller_batch_is_advised_where_no_number_of_devices_holds_the_batch() -> None:
    device = replace(GPU, memory=sharded(SHARDS, 1).memory.sharded)
    found = plan(DEEP, device=device, batch=512, length=16)
    assert advised(DEEP, found) == replace(found.workload, strategy="fsdp", devices=SHARDS, batch=1)


def test_activation_checkpointing_is_advised_where_not_even_one_sequence_fits_without() -> None:
    asked = {"device": GPU, "batch": 1, "length": 512, "strategy": "fsdp", "devices": SHARDS}
    whole = plan(DEEP, **asked)  # pyright: ignore[reportArgumentType]
    found = plan(
        DEEP, device=replace(GPU, memory=required(whole.memory, whole.workload, checkpointed=True)), batch=1, length=512
    )
    instead = advised(DEEP, found)
    assert instead is not None and instead.activation_checkpointing and 1 < instead.devices <= SHARDS


def test_nothing_is_advised_where_no_number_of_devices_is_enough() -> None:
    found = plan("gpt3", device="t4", batch=1, length=16)
    assert advised("gpt3", found) is None
    found = plan(DEEP, device=replace(GPU, memory=1e8, interconnect=0.0), batch=1, length=16)
    assert advised(DEEP, found) is None


@pytest.mark.parametrize("batch", [1, 4])
def test_where_the_length_is_the_trouble_the_longest_that_fits_is_advised(batch: int) -> None:
    spacious = replace(GPU, kind="cpu")
    device = replace(spacious, memory=plan(WIDE, device=spacious, batch=1, length=300).memory.peak)
    found = plan(WIDE, device=device, batch=batch, length=1024)
    assert not found.limits.batch and not found.limits.batch_checkpointed
    instead = advised(WIDE, found)
    assert instead is not None and not instead.activation_checkpointing and instead.batch in (1, batch)
    assert instead.devices == 1 and instead.length < 1024
    assert plan(WIDE, device=device, batch=instead.batch, length=instead.length).fits
    assert not plan(WIDE, device=device, batch=instead.batch, length=round(instead.length * 1.05)).fits
