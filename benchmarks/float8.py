"""Training in bfloat16 and in float8, side by side: the same model, batches and learning rates, in turns of some steps.

    python -m benchmarks.float8 --text TEXT --out float8.json           GPT-2 124M on a GPU, 64 x 1024 tokens a step
    python -m benchmarks.float8 --text TEXT --out xl.json --model gpt2-xl --batch 8 --steps 60
    python -m benchmarks.float8 --tiny --out tiny.json                  a small model on a CPU, to try it

TEXT is a text file, .xz or .gz of one, or the built-in stdlib. Both models start from the same random weights. Prints
mean training losses and tokens per second of every turn, then validation losses; writes them as JSON, and an SVG of the
curves beside it. The first turn of each, in which its model is compiled and its step captured, is not timed.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.scaling_sweep import encode
from glassformer.bench.measure import wait
from glassformer.charts import Curve, Panel, panels
from glassformer.data.packed_batches import PackedBatches
from glassformer.layers.config import Config
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import PRESETS, build
from glassformer.training.device import Device, choose_device
from glassformer.training.distributed import ALONE
from glassformer.training.objective import NEXT_TOKEN, LossModule
from glassformer.training.recipe import Recipe
from glassformer.training.step import Training

HALF, FLOAT8 = "bfloat16", "float8"
TINY = GPTConfig(vocab=512, context=64, dim=64, layers=2, heads=4)
TOKENIZER = 8192  # tokens that are learned from the text; the model has as many classes as its preset
EVALUATED = 4  # batches
SHARE = 0.1  # of the steps: the warm-up


@dataclass
class Side:
    """One of the two runs: its loss of every step, and the seconds of its turns."""

    training: Training
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def turn(self, steps: int) -> None:
        """Take some steps; losses stay on the device until the last one is done."""
        device, found = self.training.device.device, []
        wait(device)
        began = time.perf_counter()
        for _ in range(steps):
            self.training.train_step()
            found.append(self.training.sums[0] / self.training.sums[1])
        wait(device)
        self.seconds.append(time.perf_counter() - began)
        self.training.raise_if_nonfinite()
        self.losses += torch.stack(found).tolist()


def sides(given: argparse.Namespace, config: Config, ids: np.ndarray) -> dict[str, Side]:
    """The two runs, before their first step."""
    if given.tiny:
        half = Device(bf16=True)
        rounded = replace(half, float8=True)
    else:
        half, rounded = (choose_device("auto", each, "yes", print) for each in (HALF, FLOAT8))
        if not rounded.float8:
            raise SystemExit("this benchmark needs a GPU that computes in float8")
    recipe = Recipe(
        steps=given.steps, learning_rate=given.learning_rate, warmup_steps=max(int(SHARE * given.steps), 1),
        betas=(0.9, 0.95), weight_decay=0.1, seed=given.seed,
    )  # fmt: skip
    made = {}
    for name, device in ((HALF, half), (FLOAT8, rounded)):
        torch.manual_seed(given.seed)
        batches = PackedBatches(ids, given.batch, given.length, given.seed)
        made[name] = Side(
            Training(LossModule(build(config, given.seed), NEXT_TOKEN), batches, recipe, device, ALONE)
        )  # the same weights, batches and learning rates
        made[name].training.model.train()
    return made


def chart(runs: Mapping[str, Side], turn: int, title: str) -> str:
    """The mean loss of every turn in both precisions, and below it how far float8 is above bfloat16, in percent."""
    curves = [
        Curve(name, style, means(side.losses, turn))
        for (name, side), style in zip(runs.items(), ("one", "two"), strict=True)
    ]
    apart = [(x, 100 * (b / a - 1)) for (x, a), (_, b) in zip(curves[0].points, curves[1].points, strict=True)]
    losses = Panel("training loss", curves, low=min(y for curve in curves for _, y in curve.points))
    above = Curve("", "three", apart)
    return panels(
        title, [losses, Panel("float8 over bfloat16, in percent of the loss", [above], low=min(y for _, y in apart))]
    )


def means(losses: Sequence[float], turn: int) -> list[tuple[float, float]]:
    """The last step of every turn, and the mean loss of its steps."""
    return [(at + turn, statistics.mean(losses[at : at + turn])) for at in range(0, len(losses), turn)]


def train(runs: Mapping[str, Side], given: argparse.Namespace) -> None:
    """Train both in turns, and print a line for each."""
    print("| step | bfloat16 loss | float8 loss | apart | bfloat16 tokens/s | float8 tokens/s |")
    print("| --- | --- | --- | --- | --- | --- |")
    for step in range(given.turn, given.steps + 1, given.turn):
        for side in runs.values():
            side.turn(given.turn)
        half, rounded = (statistics.mean(side.losses[-given.turn :]) for side in runs.values())
        speeds = " | ".join(f"{tokens_of(given) / side.seconds[-1]:,.0f}" for side in runs.values())
        print(f"| {step} | {half:.4f} | {rounded:.4f} | {rounded / half - 1:+.2%} | {speeds} |", flush=True)


def tokens_of(given: argparse.Namespace) -> int:
    """Tokens of a turn."""
    return given.batch * given.length * given.turn


def report(runs: Mapping[str, Side], given: argparse.Namespace, held_out: np.ndarray) -> dict[str, object]:
    """Print the speed and the validation loss of both, and give them with all losses."""
    tokens = held_out[: EVALUATED * given.batch * given.length + 1]
    found: dict[str, object] = {}
    for name, side in runs.items():
        speed = tokens_of(given) / statistics.median(side.seconds[1:])
        loss = side.training.evaluate(PackedBatches(tokens, given.batch, given.length, 0))
        found[name] = {"tokens_per_second": speed, "validation": loss, "losses": side.losses, "turns": side.seconds}
        print(f"{name}: {speed:,.0f} tokens/s, validation loss {loss:.4f}", flush=True)
    return found


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", default="stdlib")
    parser.add_argument("--out", type=Path, required=True, help="JSON; an SVG is written beside it")
    parser.add_argument("--model", choices=[name for name in PRESETS if name.startswith("gpt2")], default="gpt2")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--turn", type=int, default=10, help="steps of one before the other goes on")
    parser.add_argument("--learning-rate", type=float, default=6e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tiny", action="store_true", help="a small model on a CPU")
    given = parser.parse_args()
    if given.tiny:
        given.batch, given.length, given.steps, given.learning_rate = 8, 64, min(given.steps, 60), 3e-3
    if given.steps < 2 * given.turn or given.steps % given.turn:
        parser.error(f"--steps is {given.steps}, wanted a multiple of --turn {given.turn}, at least twice as many")
    return given


def main() -> None:
    """Encode the text, train in turns, evaluate, write."""
    given, began = arguments(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        encode(given.text, TINY.vocab if given.tiny else TOKENIZER, Path(folder))
        ids, held_out = (np.load(Path(folder) / f"{part}.npy") for part in ("train", "validation"))
    print(f"{len(ids):,} tokens, encoded in {time.perf_counter() - began:.0f} s", flush=True)
    if len(held_out) <= (least := given.batch * given.length):
        raise SystemExit(
            f"{given.text}: {len(held_out):,} tokens are held out, wanted more than the {least:,} of a batch"
        )
    runs = sides(given, TINY if given.tiny else PRESETS[given.model], ids)
    train(runs, given)
    found = report(runs, given, held_out)
    name = "CPU" if given.tiny else torch.cuda.get_device_name(runs[FLOAT8].training.device.device)
    title = f"{'a small GPT' if given.tiny else given.model}, {given.batch} × {given.length} tokens a step, {name}"
    seconds = time.perf_counter() - began
    about = {"device": name, "torch": torch.__version__, "seconds": seconds}
    settings = {key: str(value) if isinstance(value, Path) else value for key, value in vars(given).items()}
    given.out.write_text(json.dumps({**about, "settings": settings, **found}, indent=1) + "\n", encoding="utf-8")
    given.out.with_suffix(".svg").write_text(chart(runs, given.turn, title), encoding="utf-8")
    print(f"{seconds:.0f} s in all")


if __name__ == "__main__":
    main()
