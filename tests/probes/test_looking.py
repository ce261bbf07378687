"""Lens, patches, attribution and norms, each against another way to the same number."""

import pytest
import torch
from torch.testing import assert_close

from glassformer.errors import TapeError
from glassformer.probes import (
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
from tests.models.zoo import TRANSLATORS, specimen

STREAMED = [
    "gpt", "llama-grouped", "modern", "seq2seq", "seq2seq-pre", "encoder-masked", "encoder-classes", "t5", "t5-gated",
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


@pytest.mark.parametrize("name", ["rnn", "mlp"])
def test_a_model_without_a_stream_says_so(name: str) -> None:
    subject = specimen(name)
    with pytest.raises(TapeError, match="there is no st"):
        logit_lens(trace(subject.model, subject.inputs))


@pytest.mark.parametrize("name", STREAMED)
def test_ablating_a_head_is_zeroing_its_rows_of_the_output_matrix(name: str) -> None:
    subject = specimen(name)
    found = trace(subject.model, subject.inputs)
    place = next(s.path.removesuffix(".attention") for s in found.steps if s.equation.name == "attention")
    ablated = patch(found, {f"{place}.attention": on_head(1, torch.zeros_like)})
    layer = subject.model.get_submodule(place)
    width = layer.shape.width
    with torch.no_grad():
        layer.output.weight[width : 2 * width] = 0
        assert_close(ablated, subject(), rtol=1e-9, atol=1e-11)


def test_patching_everything_of_another_run_gives_its_output() -> None:
    subject = specimen("gpt")
    one = trace(subject.model, subject.inputs)
    other = trace(subject.model, {"ids": (subject.inputs["ids"] + 1) % 13})
    last = "layers.1.around_feed_forward.residual"
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
