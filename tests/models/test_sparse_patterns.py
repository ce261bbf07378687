"""Sparse patterns in whole models on texts long enough for their fast kernels: padding, gradients, caches, settings."""

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from glassformer.equation import reference_mode
from glassformer.kernel_calls import MemoryMeter
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.config import Config
from glassformer.models.llama import LlamaConfig
from glassformer.models.modern import ModernConfig
from glassformer.models.registry import build
from glassformer.training.running_text import pattern_hints

LENGTH, VOCAB = 200, 11
SIZES = {"vocab": VOCAB, "dim": 16, "layers": 2, "heads": 4}
CONFIGS: dict[str, Config] = {
    "mistral": LlamaConfig(**SIZES, context=LENGTH, kv_heads=2, ffn_dim=32, window=9),
    **{
        kind: ModernConfig(**SIZES, context=LENGTH, kv_heads=2, attention=kind, window=9, dilation=3, block_size=16)
        for kind in ("sliding_window", "dilated", "block_sparse")
    },
    "softcap": ModernConfig(**SIZES, context=LENGTH, attention="sliding_window", window=9, attention_softcap=5.0),
}
EVERY = pytest.mark.parametrize("name", CONFIGS)


def model_of(name: str) -> CausalLM:
    model = build(CONFIGS[name]).double()
    assert isinstance(model, CausalLM)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1), dtype=weight.dtype))
    return model


def ids_of(rows: int, length: int) -> torch.Tensor:
    return torch.randint(VOCAB, (rows, length), generator=torch.Generator().manual_seed(0))


@EVERY
def test_padding_changes_nothing_and_gradients_are_those_of_the_formulas(name: str) -> None:
    model, ids = model_of(name), ids_of(2, LENGTH)
    mask = torch.arange(LENGTH).expand(2, -1) < torch.tensor([[LENGTH], [LENGTH - 30]])
    padded = model(ids, mask)
    assert_close(padded[1, : LENGTH - 30], model(ids[1:, : LENGTH - 30])[0])
    fast = torch.autograd.grad(padded[mask].square().sum(), list(model.parameters()))
    with reference_mode():
        plain = torch.autograd.grad(model(ids, mask)[mask].square().sum(), list(model.parameters()))
    assert_close(fast, plain)


@EVERY
def test_a_cache_gives_the_same_as_the_whole_text(name: str) -> None:
    model, ids = model_of(name), ids_of(1, LENGTH)
    with torch.no_grad():
        cache = model.new_cache(1, LENGTH, headroom=LENGTH)
        parts = [model(part, cache=cache)[:, -1] for part in ids.split([150, 49, 1], 1)]
        assert_close(torch.stack(parts, 1), model(ids)[:, [149, 198, 199]])


@EVERY
def test_a_padded_text_keeps_no_square(name: str) -> None:
    length = 2048
    config = type(CONFIGS[name])(**{**vars(CONFIGS[name]), "context": length})
    model, ids = build(config), ids_of(1, length)
    with MemoryMeter() as meter, torch.no_grad():
        model(ids, torch.ones_like(ids, dtype=torch.bool))
    assert meter.peak < length * length, "bytes; a mask over all pairs has four times as many"


def test_a_pattern_larger_than_the_text_is_said_and_works() -> None:
    config = ModernConfig(**SIZES, context=64, attention="sliding_window", window=256)
    assert list(pattern_hints(config, 64)) == [
        "model.window is 256, and texts have at most 64 tokens: each attends to all before it, as without the pattern"
    ]
    full = build(ModernConfig(**SIZES, context=64))
    found = build(config)
    assert_close(found(ids_of(2, 64)), full(ids_of(2, 64)))
    blocks = ModernConfig(**SIZES, context=64, attention="block_sparse", block_size=64)
    assert "model.block_size is 64" in next(pattern_hints(blocks, 64))
    apart = ModernConfig(**SIZES, context=64, attention="dilated", dilation=64)
    assert next(pattern_hints(apart, 64)).endswith("each attends only to itself")
    for fits in (LlamaConfig(), LlamaConfig(window=8), ModernConfig(), CONFIGS["dilated"]):
        assert not list(pattern_hints(fits, 64))


def test_it_is_said_before_training(tmp_path: Path) -> None:
    from glassformer.training.config import resolve
    from glassformer.training.run import prepare

    (tmp_path / "text.txt").write_text("to be or not to be " * 40)
    words = ("model.family=llama", "model.window=64", "data.max_length=32", "tokenizer.kind=characters")
    said: list[str] = []
    prepare(resolve("gpt", words=[f"data.path={tmp_path / 'text.txt'}", "run.device=cpu", *words]), None, said.append)
    assert any("model.window is 64, and texts have at most 32 tokens" in line for line in said)
