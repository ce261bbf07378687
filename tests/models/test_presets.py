"""Named sizes have the parameters they are known for."""

import pytest

from glassformer.equations.parameter_counts import gpt_parameters
from glassformer.errors import ConfigError
from glassformer.layers.block import AttentionShape
from glassformer.models.registry import PRESETS, build

EXACT = {
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "gpt3": 174_604_259_328,
    "llama-7b": 6_738_415_616,
    "llama-3-8b": 8_030_261_248,
    "llama-3.1-8b": 8_030_261_248,
    "mistral-7b": 7_241_732_096,
    "qwen2-0.5b": 494_032_768,
    "bert-base": 109_482_240,
    "minilm": 22_565_376,
    "t5-small": 60_506_624,
    "vit-b16": 86_567_656,
}
PUBLISHED_MILLIONS = {"transformer-base": (65, 0.03), "transformer-big": (213, 0.01), "transformer-tiny": (2.6, 0.02)}


@pytest.mark.parametrize("name", EXACT)
def test_counts_are_the_published_ones(name: str) -> None:
    assert build(name, device="meta").parameter_count() == EXACT[name]


@pytest.mark.parametrize("name", PUBLISHED_MILLIONS)
def test_counts_agree_with_published_millions(name: str) -> None:
    """The paper gives millions, and its exact vocabulary is not stated: within the share given."""
    millions, room = PUBLISHED_MILLIONS[name]
    assert build(name, device="meta").parameter_count() / 1e6 == pytest.approx(millions, rel=room)


@pytest.mark.parametrize("name", [name for name in PRESETS if name.startswith("gpt")])
def test_counts_follow_the_closed_formula(name: str) -> None:
    c = PRESETS[name]
    assert build(name, device="meta").parameter_count() == gpt_parameters(c.vocab, c.context, c.dim, c.layers)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_builds_on_the_meta_device(name: str) -> None:
    model = build(name, device="meta")
    assert model.parameter_count() > 0
    assert all(parameter.is_meta for parameter in model.parameters())


def test_what_cannot_be_built_is_named() -> None:
    with pytest.raises(ConfigError, match="no preset is called gpt5; there are transformer-tiny"):
        build("gpt5")
    with pytest.raises(ConfigError, match="heads is 3, which does not divide dim 8"):
        AttentionShape.of(dim=8, heads=3)
    with pytest.raises(ConfigError, match="kv_heads is 3, which does not divide heads 4"):
        AttentionShape.of(dim=8, heads=4, kv_heads=3)
