"""Building: on the device that is named, else where torch puts new tensors."""

from collections.abc import Iterator

import pytest
import torch

from glassformer.models.registry import build
from glassformer.probes.trace import trace
from tests.models.zoo import ZOO, specimen

EVERY = pytest.mark.parametrize("name", ZOO)


@pytest.fixture
def by_default_on_meta() -> Iterator[None]:
    torch.set_default_device("meta")
    yield
    torch.set_default_device(None)


@EVERY
def test_a_model_goes_where_torch_puts_new_tensors(name: str) -> None:
    with torch.device("meta"):
        there, here = build(ZOO[name]), build(ZOO[name], device="cpu")
    assert {parameter.device.type for parameter in there.parameters()} == {"meta"}
    for parameter, wanted in zip(here.parameters(), build(ZOO[name]).parameters(), strict=True):
        assert torch.equal(parameter, wanted)


@pytest.mark.usefixtures("by_default_on_meta")
def test_the_default_device_counts_as_well() -> None:
    assert next(build(ZOO["gpt"]).parameters()).is_meta


@EVERY
def test_a_run_and_a_trace_stay_with_the_model(name: str) -> None:
    case = specimen(name)
    wanted = case()
    with torch.device("meta"):
        assert torch.equal(case(), wanted)
        assert trace(case.model, case.inputs).output.device.type == "cpu"
