"""What tracing costs: a run under a tape that keeps nothing, everything or one layer, beside the plain run.

GPT-2 with 124 million random weights on 256 tokens; best of several rounds, interleaved in one process.
"""

import gc
import resource
import time
from collections.abc import Callable

import torch

from glassformer.models.registry import build
from glassformer.probes.trace import trace, value_bytes
from glassformer.recording import Tape

TOKENS, ROUNDS = 256, 7
model = build("gpt2").eval()
ids = torch.randint(50257, (1, TOKENS))


def seconds(call: Callable[[], object]) -> float:
    """Seconds of one call; its result is dropped."""
    gc.collect()
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def peak() -> float:
    """Peak memory of this process so far, in gigabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def run() -> None:
    """A plain run."""
    with torch.no_grad():
        model(ids)


def run_keeping_nothing() -> None:
    """A run whose tape records the order of the steps and no values."""
    with torch.no_grad(), Tape(lambda path: False):
        model(ids)


def run_keeping_all() -> Tape:
    """A run whose tape keeps every value."""
    with torch.no_grad(), Tape() as tape:
        model(ids)
    return tape


for call in (run, run_keeping_nothing, run_keeping_all):
    call()
calls = (run, run_keeping_nothing, run_keeping_all, lambda: trace(model, ids), lambda: trace(model, ids, layer=3))
base = peak()
times = [min(column) for column in zip(*([seconds(call) for call in calls] for _ in range(ROUNDS)), strict=True)]
for name, spent in zip(
    ("plain", "tape, nothing kept", "tape, all kept", "trace", "trace of one layer"), times, strict=True
):
    print(f"{name}: {spent * 1e3:.0f} ms, {spent / times[0]:.2f} times plain")
print(f"peak {peak():.2f} GB, weights included, {base:.2f} GB before the traces")
whole, layer = run_keeping_all(), trace(model, ids, layer=3)
for name, tape in (("all", whole), ("one layer", layer.tape)):
    kept = value_bytes(step for top in tape.steps for step in top.walk() if step.kept)
    print(f"values kept of {name}: {kept / 1e6:.0f} MB")
began = time.perf_counter()
backward = trace(model, ids, "next")
print(
    f"forward and backward by rule: {time.perf_counter() - began:.2f} s, peak {peak():.2f} GB, loss {backward.loss:.3f}"
)
