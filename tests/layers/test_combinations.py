"""Every position scheme, norm, activation and pattern, put together from parts and asked the same questions."""

import itertools

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from glassformer.equations.activations import gelu, gelu_tanh, relu, silu, squared_relu, tanh
from glassformer.equations.gated import swiglu
from glassformer.layers.basic import FeedForward, GatedFeedForward, LayerNorm, LearnedPositions, PlainRMSNorm, RMSNorm
from glassformer.layers.block import Attention, AttentionShape, Bidirectional, Block, Causal, Stack
from glassformer.layers.positions import (
    AlibiBias,
    RelativeBias,
    SinusoidalPositions,
)
from glassformer.layers.rotary import LinearScaling, Llama3Scaling, NTKScaling, Rotary, YarnScaling
from glassformer.layers.sparse_attention import BlockSparse, Dilated, SlidingWindow
from glassformer.recording import Tape

DIM, HEADS, HEAD_DIM = 8, 4, 6


class NoPositions(nn.Module):
    """Hidden states as they are."""

    def forward(self, x: Tensor, offset: int = 0, positions: Tensor | None = None) -> Tensor:
        return x


ADDED = {
    "none": NoPositions,
    "sinusoidal": SinusoidalPositions,
    "sinusoidal-halves": lambda: SinusoidalPositions("halves"),
    "learned": lambda: LearnedPositions(16, DIM),
}
TURNED = {
    "rotary": lambda: Rotary(HEAD_DIM),
    "rotary-adjacent": lambda: Rotary(HEAD_DIM, layout="adjacent"),
    "linear": lambda: Rotary(HEAD_DIM, scaling=LinearScaling(factor=2.0)),
    "ntk": lambda: Rotary(HEAD_DIM, scaling=NTKScaling(factor=2.0)),
    "yarn": lambda: Rotary(HEAD_DIM, scaling=YarnScaling(factor=4.0, original_length=8)),
    "llama3": lambda: Rotary(HEAD_DIM, scaling=Llama3Scaling(factor=8.0, original_length=8)),
}
BIASED = {"alibi": lambda: AlibiBias(HEADS), "t5": lambda: RelativeBias(HEADS, 8, 12, bidirectional=False)}
POSITIONS = [*ADDED, *TURNED, *BIASED]
PATTERNS = {
    "everything": Bidirectional(),
    "past": Causal(),
    "window": SlidingWindow(window=3),
    "blocks": BlockSparse(block_size=3),
    "dilated": Dilated(window=2, dilation=2),
}
NORMS = {"layer": lambda: LayerNorm(DIM), "rms": lambda: RMSNorm(DIM), "plain-rms": PlainRMSNorm}
ACTIVATIONS = {
    "relu": lambda: FeedForward(DIM, 10, relu),
    "gelu": lambda: FeedForward(DIM, 10, gelu),
    "gelu_tanh": lambda: FeedForward(DIM, 10, gelu_tanh),
    "silu": lambda: FeedForward(DIM, 10, silu, bias=False),
    "squared_relu": lambda: FeedForward(DIM, 10, squared_relu, bias=False),
    "tanh": lambda: FeedForward(DIM, 10, tanh),
    "swiglu": lambda: GatedFeedForward(DIM, 10, swiglu),
}
DEFAULT = {
    "positions": "none",
    "pattern": "past",
    "norm": "layer",
    "activation": "relu",
    "order": "pre",
    "extra": "plain",
}
VARIETIES = [
    *({"positions": p} for p in POSITIONS),
    *({"pattern": p} for p in PATTERNS),
    *({"pattern": p, "positions": q} for p, q in itertools.product(["window", "blocks"], ["rotary", "alibi"])),
    *({"norm": n, "order": o} for n, o in itertools.product(NORMS, ["pre", "post"])),
    *({"activation": a} for a in ACTIVATIONS),
    *({"extra": e, "positions": "rotary"} for e in ("qk-norm", "soft-cap", "scaled-residual", "multi-query")),
]
EACH = pytest.mark.parametrize("variety", VARIETIES, ids=["-".join(v.values()) for v in VARIETIES])


class Small(nn.Module):
    """Two blocks of the chosen parts."""

    def __init__(self, positions: str, pattern: str, norm: str, activation: str, order: str, extra: str) -> None:
        super().__init__()
        self.start = ADDED.get(positions, NoPositions)()
        groups = 1 if extra == "multi-query" else 2
        shape = AttentionShape.of(dim=DIM, heads=HEADS, kv_heads=groups, head_dim=HEAD_DIM)
        alpha = 0.5 if extra == "scaled-residual" else 1.0

        def block() -> Block:
            turned = TURNED[positions]() if positions in TURNED else None
            norms = (RMSNorm(HEAD_DIM), RMSNorm(HEAD_DIM)) if extra == "qk-norm" else None
            cap = 1.5 if extra == "soft-cap" else None
            attention = Attention(shape, PATTERNS[pattern], turned, norms, logit_softcap=cap)
            return Block(
                attention, ACTIVATIONS[activation](), NORMS[norm], norm_first=order == "pre", residual_scale=alpha
            )

        self.stack = Stack([block(), block()], bias=BIASED[positions]() if positions in BIASED else None)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.stack(self.start(x), mask)


def small(variety: dict[str, str], dtype: torch.dtype = torch.float64) -> tuple[Small, Tensor]:
    torch.manual_seed(0)
    model = Small(**(DEFAULT | variety)).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.4 * torch.randn_like(parameter) + (parameter.dim() == 1))
    return model, torch.randn(2, 9, DIM, dtype=torch.float64).to(dtype)


@EACH
def test_replay_reverse_and_fast_path(variety: dict[str, str]) -> None:
    model, x = small(variety)
    x.requires_grad_()
    with Tape() as tape:
        y = model(x)
    assert_close(model(x), y, rtol=1e-10, atol=1e-10)
    leaves, seed = [x, *model.parameters()], torch.randn_like(y)
    wanted = torch.autograd.grad(y, leaves, seed)
    for deep in (False, True):
        assert torch.equal(tape.replay(deep), y)
        found = tape.reverse(seed, deep=deep)
        for leaf, reference in zip(leaves, wanted, strict=True):
            assert_close(found[leaf], reference, rtol=1e-8, atol=1e-10)


@EACH
def test_causality_and_padding(variety: dict[str, str]) -> None:
    model, x = small(variety, torch.float32)
    y = model(x)
    if variety.get("pattern") != "everything":
        changed = x.clone()
        changed[:, 5:] = torch.randn(2, 4, DIM)
        assert torch.equal(model(changed)[:, :5], y[:, :5])
    padded = torch.cat([x, torch.randn(2, 3, DIM)], 1)
    mask = torch.where(torch.arange(12) < 9, 0.0, -torch.inf)
    assert_close(model(padded, mask.expand(2, 1, 1, 12))[:, :9], y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm", NORMS)
def test_without_positions_order_does_not_matter_and_with_them_it_does(norm: str) -> None:
    order = torch.tensor([3, 0, 8, 1, 5, 2, 7, 4, 6])
    model, x = small({"pattern": "everything", "norm": norm})
    assert_close(model(x[:, order]), model(x)[:, order], rtol=1e-9, atol=1e-9)
    for positions in POSITIONS[1:]:
        model, x = small({"pattern": "everything", "norm": norm, "positions": positions})
        assert not torch.allclose(model(x[:, order]), model(x)[:, order], atol=1e-3), positions


def test_patterns_let_through_what_they_say() -> None:
    """Change one token and see which outputs notice, through one layer."""
    for name, pattern in PATTERNS.items():
        torch.manual_seed(0)
        layer = Attention(AttentionShape.of(dim=DIM, heads=2), pattern).double()
        for parameter in layer.parameters():
            nn.init.normal_(parameter)
        x = torch.randn(1, 8, DIM, dtype=torch.float64)
        for j in range(8):
            changed = x.clone()
            changed[:, j] += 1
            noticed = [i for i in range(8) if not torch.equal(layer(x)[0, i], layer(changed)[0, i])]
            mask = pattern.mask(8, 8, x)
            allowed = torch.ones(8, 8).bool() if mask is None else mask == 0
            allowed = allowed.tril() if pattern.causal else allowed
            own = {j}  # its own query changes
            assert set(noticed) == own | {i for i in range(8) if allowed[i, j]}, name
