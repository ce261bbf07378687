"""Lens, patches, attribution and norms, each against another way to the same number."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from glassformer.errors import TapeError
from glassformer.models.build import build
from glassformer.models.rnn import RNNConfig
from glassformer.probes import (
    attention_maps,
    gradient_norms,
    head_attribution,
    layer_attribution,
    logit_lens,
    on_head,
    on_token,
    patch,
    residual_stream,
    stream_norms,
    trace,
    weight_gradient_norms,
)
from tests.models.zoo import TRANSLATORS, ZOO, specimen

STREAMED = [
    "gpt", "llama-grouped", "modern", "seq2seq", "seq2seq-pre", "encoder-masked", "encoder-classifier", "t5", "t5-gated",
]  # fmt: skip


@pytest.mark.parametrize("name", STREAMED)
def test_the_lens_ends_with_what_the_model_says_and_sees_shorter_models(name: str) -> None:
    subject = specimen(name)
    found = trace(subject.model, subject.inputs)
    said = logit_lens(found)
    stack = subject.model.decoder if name in TRANSLATORS else subject.model.stack
    assert len(said) == len(stack.blocks) + 1
    assert torch.equal(said[-1], found.output)
    for depth in range(len(stack.blocks)):
        whole, stack.blocks = stack.blocks, stack.blocks[:depth]
        with torch.no_grad():
            assert_close(said[depth], subject(), rtol=1e-9, atol=1e-11)
        stack.blocks = whole


def test_a_model_without_a_stream_says_so() -> None:
    subject = specimen("mlp")
    with pytest.raises(TapeError, match="there is no st"):
        logit_lens(trace(subject.model, subject.inputs))


@pytest.mark.parametrize("cell", ["rnn", "lstm"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("hidden", [5, 6])
def test_a_recurrent_network_has_no_stream(cell: str, layers: int, hidden: int) -> None:
    model = build(RNNConfig(vocab=13, dim=5, hidden_dim=hidden, layers=layers, cell=cell))
    with pytest.raises(TapeError, match=r"layers\.0 runs 4 times, once for each token: there is no stream"):
        logit_lens(trace(model, torch.arange(4)[None]))


def test_a_block_that_runs_as_many_layers_has_as_many_depths() -> None:
    """ALBERT: its lens sees models that run the block less often."""
    inputs = specimen("encoder-masked").inputs
    model = build(replace(ZOO["encoder-masked"], share_layers=True, layers=4)).double().eval()
    found = trace(model, inputs)
    said = logit_lens(found)
    assert len(said) == 5 and torch.equal(said[-1], found.output)
    for depth in range(4):
        shorter = build(replace(ZOO["encoder-masked"], share_layers=True, layers=depth)).double().eval()
        shorter.load_state_dict({n: v for n, v in model.state_dict().items() if n in shorter.state_dict()})
        with torch.no_grad():
            assert_close(said[depth], shorter(**inputs), rtol=1e-9, atol=1e-11)
    assert {step.name.split(".")[1] for step in trace(model, inputs, layer=2).steps} == {"2"}
    assert list(attention_maps(model, inputs)) == [f"stack.blocks.{i}.attention" for i in range(4)]


class Halved(nn.Module):
    """A model behind which a plain torch operation stands."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        return self.model(ids) / 2


def test_what_a_trace_does_not_know_is_not_made_up() -> None:
    subject = specimen("gpt")
    narrowed, followed = trace(subject.model, subject.inputs, layer=0), trace(Halved(subject.model), subject.inputs)
    change = {"layers.0.attention.weights": torch.zeros_like}
    for ask in (lambda found: patch(found, change), logit_lens):
        with pytest.raises(TapeError, match=r"kept only some values.*narrow a trace with select"):
            ask(narrowed)
        with pytest.raises(TapeError, match=r"made by torch\.Tensor\.div; it is not an equation"):
            ask(followed)
    assert patch(trace(subject.model, subject.inputs).select(layer=0), change).shape == (3, 7, 13)


@pytest.mark.parametrize("name", STREAMED)
def test_ablating_a_head_is_zeroing_its_rows_of_the_output_matrix(name: str) -> None:
    subject = specimen(name)
    found = trace(subject.model, subject.inputs)
    place = next(s.path.removesuffix(".attention") for s in found.steps if s.equation.name == "attention")
    ablated = patch(found, {f"{place}.attention": on_head(1, torch.zeros_like)})
    layer = subject.model.get_submodule(place)
    width = layer.shape.head_dim
    with torch.no_grad():
        layer.output.weight[width : 2 * width] = 0
        assert_close(ablated, subject(), rtol=1e-9, atol=1e-11)


def test_patching_everything_of_another_run_gives_its_output() -> None:
    subject = specimen("gpt")
    one = trace(subject.model, subject.inputs)
    other = trace(subject.model, {"ids": (subject.inputs["ids"] + 1) % 13})
    last = "layers.1.feed_forward_residual"
    assert_close(patch(one, {last: other[last].value}), other.output, rtol=1e-9, atol=1e-11)
    token = patch(one, {"embedding": lambda e: torch.where(torch.arange(7)[:, None] == 6, other["embedding"].value, e)})
    assert torch.equal(token[:, :6], one.output[:, :6]) and not torch.allclose(token[:, 6], one.output[:, 6])


def test_patching_weights_inside_attention_moves_what_comes_after() -> None:
    subject = specimen("gpt")
    found = trace(subject.model, subject.inputs)
    assert torch.equal(patch(found, {"layers.0.attention.weights": lambda a: a}), found.output)
    changed = patch(found, {"layers.0.attention.weights": on_token(3, lambda a: a.roll(1, -1))})
    assert torch.equal(changed[:, :3], found.output[:, :3]) and not torch.allclose(changed[:, 3], found.output[:, 3])
    asked = patch(
        found, {"layers.0.attention.weights": torch.zeros_like}, of=found["layers.0.attention.output"].step.output
    )
    assert_close(asked, subject.model.stack.blocks[0].attention.output.bias.detach().expand_as(asked))


def test_bad_patches_are_named() -> None:
    subject = specimen("gpt")
    found = trace(subject.model, subject.inputs)
    with pytest.raises(TapeError, match=r"no step is called 'layers.0.atention.weights'; .*layers.0.attention.weights"):
        patch(found, {"layers.0.atention.weights": torch.zeros_like})
    with pytest.raises(TapeError, match=r"has shape \[3, 7, 8\], and cannot be replaced by one of \[8\]"):
        patch(found, {"embedding": torch.zeros(8)})
    with pytest.raises(TapeError, match=r"has no place 2 among its heads"):
        patch(found, {"layers.0.attention.outputs": on_head(2, torch.zeros_like)})


@pytest.mark.parametrize("name", ["gpt", "llama-grouped", "seq2seq", "t5"])
def test_attribution_is_the_slope_of_turning_a_part_down(name: str) -> None:
    subject = specimen(name)
    found = trace(subject.model, subject.inputs, "next")

    def slope(place: str, change: object) -> float:
        def at(share: float) -> float:
            return float(patch(found, {place: change(lambda value: share * value)}, of=found.loss))

        return -(at(1 + 1e-6) - at(1 - 1e-6)) / 2e-6

    heads = head_attribution(found)
    assert len(heads) == sum(step.equation.name == "attention" for step in found.steps)
    for place, rise in heads.items():
        for head in range(len(rise)):
            assert float(rise[head]) == pytest.approx(slope(place, lambda c, h=head: on_head(h, c)), rel=1e-4, abs=1e-7)
    for place, rise in layer_attribution(found).items():
        assert float(rise) == pytest.approx(slope(place, lambda c: c), rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("name", ["gpt", "modern"])
def test_heads_are_known_while_training_with_dropout(name: str) -> None:
    """So little dropout that nothing is dropped, and yet attention runs in parts: the same as without."""
    subject = specimen(name)
    quiet = build(replace(ZOO[name], dropout=1e-12)).double().train()
    quiet.load_state_dict(subject.model.state_dict())
    maps, wanted = attention_maps(quiet, subject.inputs), attention_maps(subject.model, subject.inputs)
    assert list(maps) == list(wanted) != []
    heads = head_attribution(trace(quiet, subject.inputs, "next"))
    told = head_attribution(trace(subject.model, subject.inputs, "next"))
    assert list(heads) == list(told) != []
    for place, weights in wanted.items():
        assert_close(maps[place], weights)
    for place, rise in told.items():
        assert_close(heads[place], rise)


def test_norms_by_depth() -> None:
    subject = specimen("gpt")
    found = trace(subject.model, subject.inputs, "next")
    rows = residual_stream(found)
    assert_close(stream_norms(found)[0], found["positions.sum"].value.square().sum(-1).sqrt().mean())
    assert_close(gradient_norms(found)[2], found.gradient_of(rows[2]).square().sum().sqrt())
    loss = torch.nn.functional.cross_entropy(subject()[:, :-1].flatten(0, 1), subject.inputs["ids"][:, 1:].flatten())
    loss.backward()
    for name, norm in weight_gradient_norms(found).items():
        parameter = subject.model.get_parameter(name.replace("layers.", "stack.blocks."))
        assert_close(norm, parameter.grad.norm())
    encoder = specimen("seq2seq")
    both = trace(encoder.model, encoder.inputs)
    assert residual_stream(both, "encoder")[-1].shape == (3, 7, 8) and residual_stream(both)[-1].shape == (3, 5, 8)
    with pytest.raises(TapeError, match="no stack of layers called 'middle'; the model has encoder, decoder"):
        residual_stream(both, "middle")


def test_without_a_backward_pass_gradients_are_asked_for_politely() -> None:
    subject = specimen("gpt")
    found = trace(subject.model, subject.inputs)
    for ask in (head_attribution, layer_attribution, gradient_norms):
        with pytest.raises(TapeError, match="did not go backward"):
            ask(found)
