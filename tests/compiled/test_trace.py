"""A compiled model is traced as it was written, and held against what it really said."""

import pytest
import torch

from glassformer.probes.agreement import agreement
from glassformer.probes.readout import attention_maps
from glassformer.probes.trace import trace
from glassformer.recording import Tape
from tests.models.zoo import specimen


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_compiled_run_is_shown_by_the_plain_equations(dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    case = specimen("llama-grouped", dtype)
    compiled = torch.compile(case.model, fullgraph=True, backend="aot_eager")
    found, plain = trace(compiled, case.inputs), trace(case.model, case.inputs)
    assert [step.name for step in found.steps] == [step.name for step in plain.steps]
    assert torch.equal(found.output, plain.output)
    with torch.no_grad():
        apart = (compiled(**case.inputs) - found.output).abs().max()
    assert found.difference.difference == pytest.approx(float(apart))
    assert found.difference.relative < (1e-5 if dtype == torch.float32 else 0.06)


def test_a_tape_records_a_compiled_model_as_it_was_written() -> None:
    torch._dynamo.reset()
    case = specimen("gpt", torch.float32)
    with torch.no_grad(), Tape() as plain:
        said = case()
    boxed = torch.compile(case.model, backend="eager")
    inside = specimen("gpt", torch.float32)
    inside.model.compile(backend="eager")
    parts = specimen("gpt", torch.float32)
    blocks = parts.model.stack.blocks
    for index, block in enumerate(blocks):
        blocks[index] = torch.compile(block, backend="eager")
    for model in (boxed, inside.model, parts.model):
        with torch.no_grad():
            model(**case.inputs)  # compiled before it is recorded
        with torch.no_grad(), Tape() as tape:
            again = model(**case.inputs)
        assert [step.path for step in tape.steps] == [step.path for step in plain.steps]
        assert torch.equal(again, said) and len(attention_maps(model, case.inputs)) == 2
        assert agreement(model, case.inputs)
    assert torch.compiler.is_dynamo_compiling() is False
    with pytest.raises(RuntimeError, match="on purpose"), Tape():
        raise RuntimeError("on purpose")
    counted = torch._dynamo.testing.CompileCounter()
    torch.compile(lambda x: x + 1, backend=counted)(torch.ones(2))
    assert counted.frame_count == 1, "with the tape off, models are compiled again"
