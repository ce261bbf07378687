"""Attention maps, residual stream, norms and logit lens, each against another way to the same number."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from glassformer.errors import TapeError
from glassformer.models.registry import build
from glassformer.models.rnn import RNNConfig
from glassformer.probes.readout import (
    attention_maps,
    gradient_norms,
    logit_lens,
    residual_stream,
    stream_norms,
    weight_gradient_norms,
)
from glassformer.probes.trace import trace
from tests.models.zoo import TRANSLATORS, ZOO, specimen

STREAMED = [
    *("gpt", "llama-grouped", "modern", "seq2seq", "seq2seq-pre", "encoder-masked", "encoder-classifier", "t5"),
    "t5-gated",
]


def test_every_attention_of_a_translator_is_there() -> None:
    case = specimen("seq2seq")
    maps = attention_maps(case.model, case.inputs)
    assert list(maps) == [
        *(f"encoder.blocks.{i}.attention" for i in range(2)),
        *(f"decoder.blocks.{i}.{part}" for i in range(2) for part in ("attention", "cross_attention")),
    ]
    assert maps["decoder.blocks.1.cross_attention"].shape == (3, 2, 5, 7)
    for weights in maps.values():
        assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert maps["decoder.blocks.0.attention"].triu(1).eq(0).all(), "the decoder does not look ahead"


def test_a_changed_weight_changes_the_maps_behind_it_and_no_other() -> None:
    case = specimen("gpt")
    before = attention_maps(case.model, case.inputs)
    with torch.no_grad():
        case.model.stack.blocks[1].attention.qkv.weight.add_(
            torch.randn(8, 24, generator=torch.Generator().manual_seed(0))
        )
    after = attention_maps(case.model, case.inputs)
    assert torch.equal(before["stack.blocks.0.attention"], after["stack.blocks.0.attention"])
    assert not torch.allclose(before["stack.blocks.1.attention"], after["stack.blocks.1.attention"])


@pytest.mark.parametrize("name", STREAMED)
def test_the_lens_ends_with_what_the_model_says_and_sees_shorter_models(name: str) -> None:
    case = specimen(name)
    found = trace(case.model, case.inputs)
    said = logit_lens(found)
    stack = case.model.decoder if name in TRANSLATORS else case.model.stack
    assert len(said) == len(stack.blocks) + 1
    assert torch.equal(said[-1], found.output)
    for depth in range(len(stack.blocks)):
        whole, stack.blocks = stack.blocks, stack.blocks[:depth]
        with torch.no_grad():
            assert_close(said[depth], case(), rtol=1e-9, atol=1e-11)
        stack.blocks = whole


def test_a_model_without_a_stream_says_so() -> None:
    case = specimen("mlp")
    with pytest.raises(TapeError, match="there is no st"):
        logit_lens(trace(case.model, case.inputs))


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


def test_norms_by_depth() -> None:
    case = specimen("gpt")
    found = trace(case.model, case.inputs, "next")
    rows = residual_stream(found)
    assert_close(stream_norms(found)[0], found["positions.sum"].value.square().sum(-1).sqrt().mean())
    assert_close(gradient_norms(found)[2], found.gradient_of(rows[2]).square().sum().sqrt())
    loss = torch.nn.functional.cross_entropy(case()[:, :-1].flatten(0, 1), case.inputs["ids"][:, 1:].flatten())
    loss.backward()
    for name, norm in weight_gradient_norms(found).items():
        parameter = case.model.get_parameter(name.replace("layers.", "stack.blocks."))
        assert_close(norm, parameter.grad.norm())
    encoder = specimen("seq2seq")
    both = trace(encoder.model, encoder.inputs)
    assert residual_stream(both, "encoder")[-1].shape == (3, 7, 8) and residual_stream(both)[-1].shape == (3, 5, 8)
    with pytest.raises(TapeError, match="no stack of layers called 'middle'; the model has encoder, decoder"):
        residual_stream(both, "middle")
