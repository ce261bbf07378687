"""Sparse attention against full attention: seconds and peak memory of a forward and a training step, by length.

python benchmarks/sparse_attention.py [--device cpu] [--lengths 2048 16384] [--rounds 5] [--compile] [--padding]

Every measurement is of the same model (a `modern` decoder), in a process of its own on a CPU, so that the peak of one
does not hide that of another. On a GPU all run in one process, in bfloat16, and the counters of CUDA are read.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor

from glassformer.equation import Equation, no_checks
from glassformer.equations.block_attention import block_attention
from glassformer.equations.losses import cross_entropy
from glassformer.equations.window_attention import window_attention
from glassformer.layers.model import Model
from glassformer.models.modern import ModernConfig
from glassformer.models.registry import build

Attention = Literal["causal", "sliding_window", "dilated", "block_sparse"]
PATTERNS: tuple[Attention, ...] = get_args(Attention)
MEGABYTE, WARM_UP = 1e6, 600  # tokens
RETURNED = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}  # what is freed goes back at once


def model_for(pattern: Attention, given: argparse.Namespace, length: int) -> Model:
    """A decoder of two layers with this pattern; on a GPU of four wider ones."""
    gpu = given.device == "cuda"
    dim, heads, layers = (768, 12, 4) if gpu else (128, 4, 2)
    config = ModernConfig(
        vocab=256, context=length, dim=dim, heads=heads, layers=layers,
        attention=pattern, window=given.window, block_size=given.window, dilation=4,
    )  # fmt: skip
    model = build(config).to(given.device)
    return model.to(torch.bfloat16) if gpu else model


def run(model: Model, ids: Tensor, mask: Tensor | None, trains: bool) -> None:
    """A forward pass, or a forward and a backward pass."""
    with torch.set_grad_enabled(trains):
        logits = model(ids, mask)
        if trains:
            cross_entropy(logits[:, :-1].float(), ids[:, 1:]).backward()
            model.zero_grad()
    if ids.is_cuda:
        torch.cuda.synchronize()


def measure(pattern: Attention, given: argparse.Namespace, length: int, trains: bool) -> dict[str, float]:
    """Median and least seconds of a pass, and the peak of the memory over what the model and its input take."""
    model = model_for(pattern, given, length)
    rows = max(given.tokens // length, 1) if given.device == "cuda" else 1
    ids = torch.randint(256, (rows, length), generator=torch.Generator().manual_seed(0)).to(given.device)
    mask = torch.arange(length, device=given.device).expand_as(ids) < length * 3 // 4 if given.padding else None
    if given.compile:
        model.compile()
    few = slice(0, min(length, WARM_UP)) if given.device == "cpu" else slice(None)
    run(model, ids[:, few], None if mask is None else mask[:, few], trains)  # what is loaded or compiled once
    before = reset_peak(given.device)
    times = []
    for _ in range(given.rounds):
        begun = time.perf_counter()
        run(model, ids, mask, trains)
        times.append(time.perf_counter() - begun)
    peak = (peak_memory(given.device) - before) / MEGABYTE
    return {"seconds": statistics.median(times), "least": min(times), "peak": peak}


def reset_peak(device: str) -> int:
    """Let the peak count from here; returns the memory in use."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak_memory(device: str) -> int:
    """The most memory in use since the reset."""
    return torch.cuda.max_memory_allocated() if device == "cuda" else _status("VmHWM")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def agree(device: str) -> None:
    """Print how far each kernel is from its formula in float32, in value and gradient, relative to the largest."""
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(2, 4, 700, 64, generator=generator).to(device, torch.bfloat16) for _ in range(3)]
    mask = (torch.arange(700) < 600).expand(2, 1, 1, 700).to(device)
    sizes: dict[str, tuple[Equation[..., Tensor], dict[str, int]]] = {
        "sliding_window": (window_attention, {"w": 64}),
        "dilated": (window_attention, {"w": 64, "d": 4}),
        "block_sparse": (block_attention, {"b": 64}),
    }
    for name, (equation, size) in sizes.items():
        for padding in (None, mask):
            found, wanted = (
                _with_gradients(run, [part.to(dtype) for part in parts], {**size, "mask": padding})
                for run, dtype in ((equation.kernel, torch.bfloat16), (equation.fn, torch.float32))
            )
            apart = [float((a.float() - b).abs().max() / b.abs().max()) for a, b in zip(found, wanted, strict=True)]
            print(name, "padded" if padding is not None else "", *(f"{each:.1e}" for each in apart), flush=True)


def _with_gradients(run: Callable[..., Tensor], parts: list[Tensor], more: dict[str, object]) -> tuple[Tensor, ...]:
    inputs = [part.detach().requires_grad_() for part in parts]
    with no_checks():
        output = run(*inputs, **more)
    return (output.detach(), *torch.autograd.grad(output.float().square().sum(), inputs))


def in_own_process(pattern: Attention, length: int, trains: bool) -> dict[str, float]:
    """The same measurement in a fresh process."""
    asked = [*sys.argv[1:], "--alone", pattern, "--lengths", str(length), *(["--trains"] if trains else [])]
    command = [sys.executable, __file__, *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **RETURNED})
    return json.loads(done.stdout.splitlines()[-1])


def table(given: argparse.Namespace) -> None:
    """A row for each length, pass and pattern, with what full attention takes beside it."""
    if given.device == "cuda":
        agree(given.device)
    print("| tokens | pass | attention | seconds | of full | peak MB | of full |\n| " + "--- | " * 7, flush=True)
    for length in given.lengths:
        for trains in (False, True):
            full: dict[str, float] = {}
            for pattern in PATTERNS:
                alone = given.device == "cpu"
                found = in_own_process(pattern, length, trains) if alone else measure(pattern, given, length, trains)
                full = full or found
                ratios = [f"{found[key] / full[key]:.2f}" for key in ("least", "peak")]
                cells = length, "training step" if trains else "forward", pattern, f"{found['least']:.4f}", ratios[0]
                print("|", *(f"{cell} |" for cell in (*cells, f"{found['peak']:.1f}", ratios[1])), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--lengths", type=int, nargs="+", default=[2048, 16384])
    parser.add_argument("--window", type=int, default=64, help="of windows, and length of a block")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=65536, help="of a batch on a GPU")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--padding", action="store_true", help="a quarter of the tokens is padding")
    parser.add_argument("--alone", choices=[*PATTERNS], help="measure one of them, in this process")
    parser.add_argument("--trains", action="store_true")
    chosen = parser.parse_args()
    if chosen.alone:
        print(json.dumps(measure(chosen.alone, chosen, chosen.lengths[0], chosen.trains)))
    else:
        table(chosen)
