"""Patches and attribution, each against another way to the same number."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from glassformer.errors import TapeError
from glassformer.models.registry import build
from glassformer.probes.interventions import head_attribution, layer_attribution, on_head, on_token, patch
from glassformer.probes.readout import attention_maps, gradient_norms, logit_lens
from glassformer.probes.trace import trace
from tests.models.zoo import ZOO, specimen
from tests.probes.test_readout import STREAMED


class Halved(nn.Module):
    """A model behind which a plain torch operation stands."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        return self.model(ids) / 2


def test_what_a_trace_does_not_know_is_not_made_up() -> None:
    case = specimen("gpt")
    narrowed, followed = trace(case.model, case.inputs, layer=0), trace(Halved(case.model), case.inputs)
    change = {"layers.0.attention.weights": torch.zeros_like}
    for ask in (lambda found: patch(found, change), logit_lens):
        with pytest.raises(TapeError, match=r"kept only some values.*narrow a trace with select"):
            ask(narrowed)
        with pytest.raises(TapeError, match=r"made by torch\.Tensor\.div; it is not an equation"):
            ask(followed)
    assert patch(trace(case.model, case.inputs).select(layer=0), change).shape == (3, 7, 13)


@pytest.mark.parametrize("name", STREAMED)
def test_ablating_a_head_is_zeroing_its_rows_of_the_output_matrix(name: str) -> None:
    case = specimen(name)
    found = trace(case.model, case.inputs)
    module = next(s.path.removesuffix(".attention") for s in found.steps if s.equation.name == "attention")
    ablated = patch(found, {f"{module}.attention": on_head(1, torch.zeros_like)})
    layer = case.model.get_submodule(module)
    width = layer.shape.head_dim
    with torch.no_grad():
        layer.output.weight[width : 2 * width] = 0
        assert_close(ablated, case(), rtol=1e-9, atol=1e-11)


def test_patching_everything_of_another_run_gives_its_output() -> None:
    case = specimen("gpt")
    one = trace(case.model, case.inputs)
    other = trace(case.model, {"ids": (case.inputs["ids"] + 1) % 13})
    last = "layers.1.feed_forward_residual"
    assert_close(patch(one, {last: other[last].value}), other.output, rtol=1e-9, atol=1e-11)
    token = patch(one, {"embedding": lambda e: torch.where(torch.arange(7)[:, None] == 6, other["embedding"].value, e)})
    assert torch.equal(token[:, :6], one.output[:, :6]) and not torch.allclose(token[:, 6], one.output[:, 6])


def test_patching_weights_inside_attention_moves_what_comes_after() -> None:
    case = specimen("gpt")
    found = trace(case.model, case.inputs)
    assert torch.equal(patch(found, {"layers.0.attention.weights": lambda a: a}), found.output)
    changed = patch(found, {"layers.0.attention.weights": on_token(3, lambda a: a.roll(1, -1))})
    assert torch.equal(changed[:, :3], found.output[:, :3]) and not torch.allclose(changed[:, 3], found.output[:, 3])
    asked = patch(
        found, {"layers.0.attention.weights": torch.zeros_like}, of=found["layers.0.attention.output"].step.output
    )
    assert_close(asked, case.model.stack.blocks[0].attention.output.bias.detach().expand_as(asked))


def test_bad_patches_are_named() -> None:
    case = specimen("gpt")
    found = trace(case.model, case.inputs)
    with pytest.raises(TapeError, match=r"no step is called 'layers.0.atention.weights'; .*layers.0.attention.weights"):
        patch(found, {"layers.0.atention.weights": torch.zeros_like})
    with pytest.raises(TapeError, match=r"has shape \[3, 7, 8\], and cannot be replaced by one of \[8\]"):
        patch(found, {"embedding": torch.zeros(8)})
    with pytest.raises(TapeError, match=r"has no head 2"):
        patch(found, {"layers.0.attention.outputs": on_head(2, torch.zeros_like)})


@pytest.mark.parametrize("name", ["gpt", "llama-grouped", "seq2seq", "t5", "mistral"])
def test_attribution_is_the_slope_of_turning_a_part_down(name: str) -> None:
    case = specimen(name)
    found = trace(case.model, case.inputs, "next")

    def slope(step: str, change: object) -> float:
        def at(share: float) -> float:
            return float(patch(found, {step: change(lambda value: share * value)}, of=found.loss))

        return -(at(1 + 1e-6) - at(1 - 1e-6)) / 2e-6

    heads = head_attribution(found)
    assert len(heads) == sum(step.equation.name in ("attention", "window_attention") for step in found.steps)
    for step, rise in heads.items():
        for head in range(len(rise)):
            assert float(rise[head]) == pytest.approx(slope(step, lambda c, h=head: on_head(h, c)), rel=1e-4, abs=1e-7)
    for step, rise in layer_attribution(found).items():
        assert float(rise) == pytest.approx(slope(step, lambda c: c), rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("name", ["gpt", "modern"])
def test_heads_are_known_while_training_with_dropout(name: str) -> None:
    """So little dropout that nothing is dropped, and yet attention runs in parts: the same as without."""
    case = specimen(name)
    quiet = build(replace(ZOO[name], dropout=1e-12)).double().train()
    quiet.load_state_dict(case.model.state_dict())
    maps, wanted = attention_maps(quiet, case.inputs), attention_maps(case.model, case.inputs)
    assert list(maps) == list(wanted) != []
    heads = head_attribution(trace(quiet, case.inputs, "next"))
    told = head_attribution(trace(case.model, case.inputs, "next"))
    assert list(heads) == list(told) != []
    for step, weights in wanted.items():
        assert_close(maps[step], weights)
    for step, rise in told.items():
        assert_close(heads[step], rise)


def test_without_a_backward_pass_gradients_are_asked_for_politely() -> None:
    case = specimen("gpt")
    found = trace(case.model, case.inputs)
    for ask in (head_attribution, layer_attribution, gradient_norms):
        with pytest.raises(TapeError, match="did not go backward"):
            ask(found)
