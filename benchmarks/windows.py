"""A sliding window against full attention over a long text: time and peak memory, each in its own process.

python benchmarks/windows.py [--tokens 16384] [--window 64] [--rounds 3]
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time

import torch

from glassformer.models.llama import LlamaConfig
from glassformer.models.registry import build


def measure(tokens: int, window: int | None, rounds: int) -> None:
    """Print the median seconds of a forward run, and the peak memory of this process."""
    model = build(
        LlamaConfig(vocab=1000, context=tokens, dim=128, layers=2, heads=4, ffn_dim=256, window=window)
    ).eval()
    ids = torch.randint(1000, (1, tokens), generator=torch.Generator().manual_seed(0))
    times = []
    with torch.no_grad():
        for _ in range(rounds):
            begun = time.perf_counter()
            model(ids)
            times.append(time.perf_counter() - begun)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{'full' if window is None else f'window {window}'}: {statistics.median(times):.2f} s, peak {peak:.2f} GB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--window", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--alone", choices=["full", "window"], help="measure one of them, in this process")
    given = parser.parse_args()
    if given.alone:
        measure(given.tokens, None if given.alone == "full" else given.window, given.rounds)
    else:
        for kind in ("window", "full"):
            subprocess.run([sys.executable, __file__, *sys.argv[1:], "--alone", kind], check=True)
