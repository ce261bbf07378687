"""Agreement of fast and shown, equation by equation."""

import pytest
import torch

from glassformer.equation import CHECKS, MODE
from glassformer.equations.attention import attention
from glassformer.probes.agreement import agreement
from tests.models.zoo import ZOO, specimen


@pytest.mark.parametrize("name", ZOO)
def test_every_equation_of_every_model_agrees(name: str) -> None:
    case = specimen(name, torch.float32)
    rows = agreement(case.model, case.inputs)
    assert rows
    assert max(row.difference for row in rows) < 1e-5
    assert MODE.dispatcher is CHECKS


def test_a_wrong_fast_form_is_found_and_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = attention.kernel
    monkeypatch.setattr(attention, "kernel", lambda *args: right(*args) * 1.01)
    case = specimen("gpt", torch.float32)
    worst = agreement(case.model, case.inputs)[0]
    assert worst.equation == "attention"
    assert worst.calls == 2
    assert worst.relative == pytest.approx(0.01, rel=0.01)
    assert worst.path in ("stack.blocks.0.attention.attention", "stack.blocks.1.attention.attention")


def test_dropout_draws_the_same_numbers_both_ways() -> None:
    import dataclasses

    from glassformer.models.registry import build

    model = build(dataclasses.replace(ZOO["gpt"], dropout=0.5)).train()
    rows = {row.equation: row for row in agreement(model, specimen("gpt").inputs)}
    assert rows["dropout"].difference == 0
