"""Dropout of attention weights in a layer: the same draws in a run and in its trace, and nothing else is lost."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from glassformer.equation import no_checks
from glassformer.layers.block import Attention, AttentionShape, Bidirectional, Causal
from glassformer.recording import Tape

BATCH, TOKENS, HEADS = 2, 70, 4
VARIETIES = {
    "plain": [],
    "grouped": ["grouped"],
    "mask": ["mask", "causal"],
    "bias": ["bias"],
    "soft cap": ["softcap", "causal"],
    "all": ["bias", "softcap", "mask", "causal", "grouped"],
}
EVERY = pytest.mark.parametrize("variety", VARIETIES)


def layer(variety: str, p: float) -> tuple[Attention, dict[str, Tensor]]:
    """An attention layer, and its inputs."""
    parts = VARIETIES[variety]
    torch.manual_seed(0)
    shape = AttentionShape.of(dim=16, heads=HEADS, kv_heads=2 if "grouped" in parts else HEADS)
    pattern, cap = Causal() if "causal" in parts else Bidirectional(), 0.5 if "softcap" in parts else None
    made = Attention(shape, pattern, logit_softcap=cap, dropout=p)
    for parameter in made.parameters():
        nn.init.normal_(parameter)
    inputs = {"x": torch.randn(BATCH, TOKENS, 16)}
    if "bias" in parts:
        inputs["bias"] = torch.randn(HEADS, TOKENS, TOKENS)
    if "mask" in parts:
        inputs["mask"] = torch.where(torch.arange(TOKENS) < 60, 0.0, -torch.inf)[None, None, None]
    return made, inputs


@EVERY
def test_a_run_and_its_trace_draw_the_same_numbers(variety: str) -> None:
    attention, inputs = layer(variety, 0.3)
    torch.manual_seed(1)
    with no_checks():
        run = attention(**inputs)
    torch.manual_seed(1)
    with Tape() as tape:
        traced = attention(**inputs)
    assert_close(run, traced, rtol=1e-4, atol=1e-4)
    assert torch.equal(tape.replay(deep=True), traced)
    assert not torch.allclose(run, attention(**inputs), atol=1e-2), "the next draws are others"


@EVERY
def test_with_hardly_any_dropout_it_is_attention_as_in_evaluation(variety: str) -> None:
    attention, inputs = layer(variety, 1e-9)
    assert_close(attention.train()(**inputs), attention.eval()(**inputs), rtol=1e-4, atol=1e-4)


def test_a_trace_shows_one_step_or_all_of_them_side_by_side() -> None:
    names = {}
    for variety in VARIETIES:
        attention, inputs = layer(variety, 0.3)
        with Tape() as tape:
            attention(**inputs)
        found = [step.equation.name for step in tape.steps]
        names[variety] = found[found.index("split_heads") :]
        while names[variety][0] in ("split_heads", "linear"):
            names[variety].pop(0)
    ending = ["merge_heads", "linear"]
    for variety in ("plain", "grouped", "mask"):
        assert names[variety] == ["dropout_attention", *ending]
    steps = ["softmax", "dropout", "weighted_sum", *ending]
    assert names["bias"] == ["attention_scores", "add", *steps]
    scores = ["repeat_kv", "repeat_kv", "attention_scores", "soft_cap", "add"]
    assert names["all"] == [*scores, "causal_mask", "apply_mask", "apply_mask", *steps]
