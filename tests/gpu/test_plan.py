"""A plan beside a real run of a small model on a GPU."""

import pytest
import torch

from glassformer.models.gpt import GPTConfig
from glassformer.planning.measure import measure
from glassformer.planning.plan import plan, what_is

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

CONFIG = GPTConfig(vocab=8192, context=256, dim=512, layers=4, heads=8)


def test_the_memory_of_a_compiled_step_is_within_a_tenth_of_its_plan() -> None:
    found = plan(CONFIG, device="cuda", batch=64, length=256)
    measured = measure(what_is(CONFIG), found, equations=False)
    assert found.memory.peak == pytest.approx(measured.peak, rel=0.1)
