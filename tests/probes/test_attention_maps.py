"""Attention maps come from the run itself."""

import torch
from torch.testing import assert_close

from glassformer.probes.attention_maps import attention_maps
from tests.models.zoo import specimen


def test_every_attention_of_a_translator_is_there() -> None:
    subject = specimen("seq2seq")
    maps = attention_maps(subject.model, subject.inputs)
    assert list(maps) == [
        *(f"encoder.blocks.{i}.attention" for i in range(2)),
        *(f"decoder.blocks.{i}.{part}" for i in range(2) for part in ("attention", "cross_attention")),
    ]
    assert maps["decoder.blocks.1.cross_attention"].shape == (3, 2, 5, 7)
    for weights in maps.values():
        assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert maps["decoder.blocks.0.attention"].triu(1).eq(0).all(), "the decoder does not look ahead"


def test_a_changed_weight_changes_the_maps_behind_it_and_no_other() -> None:
    subject = specimen("gpt")
    before = attention_maps(subject.model, subject.inputs)
    with torch.no_grad():
        subject.model.stack.blocks[1].attention.qkv.weight.add_(
            torch.randn(8, 24, generator=torch.Generator().manual_seed(0))
        )
    after = attention_maps(subject.model, subject.inputs)
    assert torch.equal(before["stack.blocks.0.attention"], after["stack.blocks.0.attention"])
    assert not torch.allclose(before["stack.blocks.1.attention"], after["stack.blocks.1.attention"])
