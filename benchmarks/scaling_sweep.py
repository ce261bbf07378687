"""A sweep of small language models, the law fitted to them, and a larger run whose loss the law must predict.

`python -m benchmarks.scaling_sweep --text TEXT --out FILE` trains a Llama of every size on every amount of data, each
with its own cosine schedule down to zero and a learning rate for its width, several at once. The law is fitted to
their final validation losses alone. The larger run, trained beside them, is not seen by the fit. Two sizes are trained
with other seeds too: the noise that the law cannot explain. TEXT is a text file, .xz or .gz of one, or the built-in
stdlib. `--tiny` trains a sweep for a minute on a CPU; its prediction is no claim.
"""

import argparse
import gzip
import json
import lzma
import math
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from glassformer.data.packed_batches import PackedBatches
from glassformer.data.python_source import stdlib_text
from glassformer.models.llama import LlamaConfig
from glassformer.models.registry import build
from glassformer.planning.fit import FinishedRun, Fit, fit
from glassformer.planning.law_chart import law_chart
from glassformer.planning.non_embedding import parameters_without_embeddings
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.training.device import choose_device
from glassformer.training.loop import train
from glassformer.training.objective import NEXT_TOKEN
from glassformer.training.recipe import Recipe

HEAD_DIM = 32
RATE, RATE_DIM = 2.5e-3, 128  # the peak learning rate at this width; it falls as the width grows
WARMUP = 0.1  # of the steps
VALIDATION, BLOCK = 2**18, 2**12  # tokens held out, and those of each block of them
OTHER_SEEDS = (1,)


@dataclass(frozen=True)
class Grid:
    """The sizes (dim, layers) of a sweep, its least tokens, the larger run; a vocabulary, and the shape of a batch.

    Each size is trained on the least tokens and on 2 and 4 times as many. A law needs a thousand steps at least: what
    fewer steps leave to be learned follows another law.
    """

    sizes: tuple[tuple[int, int], ...]
    least: int
    large: tuple[int, int, int]
    vocab: int
    batch: tuple[int, int]


GRIDS: Mapping[str, Grid] = {
    "full": Grid(((64, 3), (96, 4), (160, 5), (256, 6)), 5_000_000, (384, 8, 20_000_000), 1024, (16, 256)),
    "small": Grid(((32, 1), (32, 3), (64, 3)), 200_000, (96, 4, 1_200_000), 512, (8, 64)),
    "tiny": Grid(((32, 1), (32, 3), (64, 2)), 8_000, (96, 2, 64_000), 300, (4, 32)),
}


@dataclass(frozen=True)
class Job:
    """One run of the sweep: the folder of the encoded text, and what is trained on how much of it."""

    folder: str
    device: str
    vocab: int
    batch: tuple[int, int]
    dim: int
    layers: int
    tokens: int
    seed: int = 0


@dataclass(frozen=True)
class Trained:
    """A run that is finished."""

    dim: int
    layers: int
    seed: int
    parameters: int
    all_parameters: int
    tokens: int
    epochs: float
    steps: int
    learning_rate: float
    loss: float
    training_loss: float
    seconds: float

    @property
    def point(self) -> FinishedRun:
        """The run as a point of the fit."""
        name = f"{self.dim}x{self.layers}"
        return FinishedRun(parameters=self.parameters, tokens=self.tokens, loss=self.loss, name=name)


def trained(job: Job) -> Trained:
    """Train one model to the end of its schedule."""
    began = time.perf_counter()
    folder = Path(job.folder)
    text, held_out = (np.load(folder / f"{part}.npy", mmap_mode="r") for part in ("train", "validation"))
    rows, length = job.batch
    model = build(
        LlamaConfig(
            vocab=job.vocab, context=length, dim=job.dim, layers=job.layers, heads=job.dim // HEAD_DIM,
            ffn_dim=round(job.dim * 8 / 3 / 16) * 16, tie_embeddings=True,
        ),
        seed=job.seed,
    )  # fmt: skip
    steps = math.ceil(job.tokens / (rows * length))
    rate = RATE * RATE_DIM / job.dim
    recipe = Recipe(
        steps=steps, learning_rate=rate, warmup_steps=max(int(WARMUP * steps), 1), betas=(0.9, 0.95), weight_decay=0.1,
        log_every=max(steps // 4, 1), evaluate_every=steps, save_every=steps, seed=job.seed,
    )  # fmt: skip
    batches = PackedBatches(text, rows, length, job.seed)
    validation = PackedBatches(held_out, 4 * rows, length, 0)
    *_, last = train(
        model, batches, NEXT_TOKEN, recipe, None, validation, choose_device(job.device, "auto", "no")
    )  # one schedule, one evaluation: at its end
    assert last.validation is not None
    return Trained(
        dim=job.dim, layers=job.layers, seed=job.seed, parameters=parameters_without_embeddings(model),
        all_parameters=model.parameter_count(), tokens=last.tokens, epochs=last.tokens / len(text), steps=steps,
        learning_rate=rate, loss=last.validation, training_loss=last.loss, seconds=time.perf_counter() - began,
    )  # fmt: skip


def read(path: str) -> str:
    """The text to train on."""
    if path == "stdlib":
        return "\n\n".join(document.text for document in stdlib_text())
    opened = {".xz": lzma.open, ".gz": gzip.open}.get(Path(path).suffix, open)
    with opened(path, "rt", encoding="utf-8") as file:
        return file.read()


def encode(path: str, vocab: int, folder: Path) -> int:
    """Train a tokenizer on a part of the text, encode all of it, hold out blocks of it; gives the training tokens."""
    text = read(path)
    paragraphs = [part for part in text.split("\n\n") if part]
    tokenizer = learn_tokenizer(paragraphs[:: max(len(text) // 5_000_000, 1)], "bpe", vocab)
    encoded = tokenizer.encode_batch([part + "\n\n" for part in paragraphs])
    ids = np.concatenate([np.array(part, dtype=np.uint16) for part in encoded])
    blocks = np.arange(len(ids)) // BLOCK
    held_out = blocks % max(len(ids) // VALIDATION, 20) == 1
    np.save(folder / "train.npy", ids[~held_out])
    np.save(folder / "validation.npy", ids[held_out])
    return int((~held_out).sum())


def jobs_of(grid: Grid, folder: str, device: str) -> list[Job]:
    """The larger run first, since it takes longest, then the sweep, then two of it again with other seeds."""
    made = partial(Job, folder, device, grid.vocab, grid.batch)
    sweep = [made(*size, grid.least * 2**k) for k in (2, 1, 0) for size in reversed(grid.sizes)]
    again = [made(*size, grid.least, seed) for size in grid.sizes[:2] for seed in OTHER_SEEDS]
    return [made(*grid.large), *sweep, *again]


def seed_noise(runs: Sequence[Trained]) -> float:
    """The mean standard deviation of the logarithm of the loss between seeds."""
    groups: dict[tuple[int, int, int], list[float]] = {}
    for run in runs:
        groups.setdefault((run.dim, run.layers, run.steps), []).append(math.log(run.loss))
    return statistics.mean(statistics.stdev(each) for each in groups.values() if len(each) > 1)


def report(found: Fit, large: Trained, noise: float) -> dict[str, object]:
    """Print the fit and its prediction beside what was measured."""
    for run in sorted(found.runs, key=lambda each: each.flops):
        fitted = found.curve(run.parameters, run.tokens)
        print(f"{run.name:>8} {run.parameters:>12,} on {run.tokens:>12,}: loss {run.loss:.4f}, fitted {fitted:.4f}")
    print(found.words, {name: f"{c.value:.4g} [{c.low:.4g}, {c.high:.4g}]" for name, c in found.constants.items()})
    predicted = found.predict(large.parameters, large.tokens)
    error = predicted.value / large.loss - 1
    losses = [run.loss for run in found.runs]
    print(f"losses from {min(losses):.3f} to {max(losses):.3f}; relative error {found.error:.2%}, seeds {noise:.2%}")
    print(
        f"{large.parameters:,} parameters on {large.tokens:,} tokens, "
        f"{found.extrapolation(large.parameters, large.tokens):.1f} times the compute of the largest run fitted: "
        f"predicted {predicted.value:.4f} [{predicted.low:.4f}, {predicted.high:.4f}], measured {large.loss:.4f}, "
        f"off by {error:+.2%}"
    )
    return {"predicted": asdict(predicted), "measured": large.loss, "relative_error": error, "seed_noise": noise}


def main() -> None:
    """Encode once, train all runs, fit the sweep, predict the larger run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", default="stdlib")
    parser.add_argument("--grid", choices=GRIDS, default="full")
    parser.add_argument("--tiny", action="store_const", const="tiny", dest="grid")
    parser.add_argument("--workers", type=int, default=1, help="processes that train side by side")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="JSON of every run and of the fit; a chart beside it")
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # of the workers
    began, grid = time.perf_counter(), GRIDS[given.grid]
    with tempfile.TemporaryDirectory() as name:
        tokens = encode(given.text, grid.vocab, Path(name))
        print(f"{tokens:,} tokens, encoded in {time.perf_counter() - began:.0f} s", flush=True)
        runs = []
        with ProcessPoolExecutor(given.workers, get_context("spawn")) as pool:
            for run in pool.map(trained, jobs_of(grid, name, given.device)):
                runs.append(run)
                print(f"{run.point.name} seed {run.seed}, {run.tokens:,} tokens, {run.epochs:.2f} epochs: loss "
                      f"{run.loss:.4f}, training {run.training_loss:.4f}, {run.seconds:.0f} s", flush=True)  # fmt: skip
    large, *rest = runs
    found = fit([run.point for run in rest if run.seed == 0])
    result = report(found, large, seed_noise(rest))
    seconds = time.perf_counter() - began
    print(f"{len(runs)} runs in {seconds:.0f} s")
    if given.out is not None:
        data = {**result, "seconds": seconds, "text_tokens": tokens, "fit": found.as_data()}
        given.out.write_text(json.dumps({**data, "runs": [asdict(run) for run in runs]}, indent=1), encoding="utf-8")
        given.out.with_suffix(".svg").write_text(
            law_chart(found, [(large.parameters, large.tokens)], [large.point]), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
