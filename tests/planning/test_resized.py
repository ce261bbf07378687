"""A step at a size that was not recorded is the step as it would be recorded there."""

from dataclasses import replace

import pytest

from glassformer.models.registry import PRESETS, build
from glassformer.planning.devices import find_device
from glassformer.planning.figures import Workload
from glassformer.planning.plan import Planning, plan, what_is
from glassformer.planning.resized import Sizes
from tests.planning.test_counts import few_layers

SIZES = {"batch": ((8, 16), 500), "length": ((64, 32, 16), 200)}  # recorded, and asked for
NO_TOKENS = ("vit-tiny",)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["transformer-tiny", "t5-small", "modern", *NO_TOKENS])
def test_what_is_kept_and_what_is_computed_again_follows_the_size(name: str, size: str) -> None:
    """A tensor that is small beside a weight in a small batch is large beside it in a large one."""
    if size == "length" and name in NO_TOKENS:
        pytest.skip("it reads no tokens")
    planned = replace(what_is(name), model=build(few_layers(PRESETS[name]), device="meta"))
    here = Workload(batch=8, length=0 if name in NO_TOKENS else 64, dtype="bfloat16")
    planning = Planning(planned, find_device("l4"), here)
    known, asked = SIZES[size]
    steps = [(n, planning.record(replace(here, **{size: n}))) for n in known]
    there = replace(here, **{size: asked})
    found, wanted = Sizes(size, here, steps, planning.record).at(asked), planning.record(there)
    assert found.sizes == wanted.sizes
    assert planning.memory_of(there, found) == planning.memory_of(there, wanted)


def test_the_largest_batch_is_the_same_from_any_batch_and_fits() -> None:
    few, many = (plan("transformer-tiny", device="t4", batch=batch, length=64) for batch in (1, 500))
    assert few.limits.batch == pytest.approx(many.limits.batch, rel=1 / 32)
    for asked, fits in ((few.limits.batch, True), (round(1.05 * few.limits.batch), False)):
        assert plan("transformer-tiny", device="t4", batch=asked, length=64).fits == fits
