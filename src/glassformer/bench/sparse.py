"""Sparse attention beside full attention, by length: a forward pass and a training step of the same model."""

from collections.abc import Callable
from functools import partial
from typing import Literal, get_args

import torch

from glassformer.bench.measure import Measurement, Runner, Step, TimedWork, measure
from glassformer.bench.options import BenchOptions
from glassformer.equations.losses import cross_entropy
from glassformer.models.modern import ModernConfig
from glassformer.models.registry import build

Attention = Literal["causal", "sliding_window", "dilated", "block_sparse"]
PATTERNS: tuple[Attention, ...] = get_args(Attention)
LENGTHS = (2048, 16384)
ROWS = {f"{kind}-{length}": (kind, length) for length in LENGTHS for kind in ("forward", "step")}
WINDOW, DILATION, VOCAB = 64, 4, 256
TOKENS = 65536  # of a batch on a GPU; on a CPU it is one text


def sparse(options: BenchOptions) -> list[Measurement]:
    """Measure every pattern of attention by length."""
    found: list[Measurement] = []
    for name, (kind, length) in ROWS.items():
        if options.row(name, ROWS):
            tokens = 128 if options.tiny else length
            rows = max(TOKENS // length, 1) if options.device.device.type == "cuda" else 1
            candidates: dict[str, Callable[[], Runner]] = {
                pattern: partial(_runner, pattern, rows, tokens, kind == "step", options) for pattern in PATTERNS
            }
            work = TimedWork(suite="sparse", name=name, unit="tokens/s", amount=rows * tokens, steps=1, warm_up=2)
            runners = options.runners(candidates)
            found += measure(work, runners, options.rounds, options.device.device, options.say)
    return found


def _runner(pattern: Attention, rows: int, length: int, trains: bool, options: BenchOptions) -> Runner:
    """A decoder of two layers with this pattern; on a GPU of four wider ones, in bfloat16 where that is fast."""
    device = options.device
    dim, heads, layers = (768, 12, 4) if device.device.type == "cuda" else (128, 4, 2)

    def start() -> Step:
        config = ModernConfig(
            vocab=VOCAB, context=length, dim=dim, heads=heads, layers=layers, attention=pattern, window=WINDOW,
            block_size=WINDOW, dilation=DILATION,
        )  # fmt: skip
        model = build(config, seed=options.seed).to(device.device, torch.bfloat16 if device.bf16 else torch.float32)
        ids = torch.randint(VOCAB, (rows, length), device=device.device)
        if device.compile is not False:
            model.compile()

        def step() -> None:
            with torch.set_grad_enabled(trains):
                logits = model(ids)
                if trains:
                    cross_entropy(logits[:, :-1].float(), ids[:, 1:]).backward()
                    model.zero_grad()

        return step

    return Runner(pattern, start)
