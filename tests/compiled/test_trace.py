"""A compiled model is traced as it was written, and held against what it really said."""

import pytest
import torch

from glassformer.probes.trace import trace
from tests.models.zoo import specimen


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_compiled_run_is_shown_by_the_plain_equations(dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    subject = specimen("llama-grouped", dtype)
    compiled = torch.compile(subject.model, fullgraph=True, backend="aot_eager")
    found, plain = trace(compiled, subject.inputs), trace(subject.model, subject.inputs)
    assert [step.name for step in found.steps] == [step.name for step in plain.steps]
    assert torch.equal(found.output, plain.output)
    with torch.no_grad():
        apart = (compiled(**subject.inputs) - found.output).abs().max()
    assert found.difference.difference == pytest.approx(float(apart))
    assert found.difference.relative < (1e-5 if dtype == torch.float32 else 0.06)
