"""Training a translator beside `torch.nn.Transformer`: pairs of one length, padded or packed, and pairs as long as
sentences are."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from glassformer.bench.distance import draw_vectors, exact_products, relative_distance, require_near
from glassformer.bench.measure import OURS, Measurement, Runner, Step, TimedWork, measure
from glassformer.bench.options import BenchOptions
from glassformer.bench.our_training import our_runner
from glassformer.bench.peer_steps import autocast
from glassformer.bench.torch_transformer import TorchTranslator, TranslatorLoss, copy_to_torch
from glassformer.data.batches import IGNORE
from glassformer.data.packed_pairs import PackedPairBatches
from glassformer.data.padded_batches import PairBatches
from glassformer.models.registry import build
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.training.recipe import Recipe
from glassformer.training.tasks.translate import TranslateTask

TORCH = "torch.nn.Transformer"
PAD, START, EOS, FIRST_WORD = 0, 0, 1, 2
BASE = Seq2SeqConfig(dropout=0.1)
RECIPE = Recipe(
    steps=1_000_000, learning_rate=7e-4, warmup_steps=4000, schedule="noam", betas=(0.9, 0.98), label_smoothing=0.1
)

Pairs = list[tuple[list[int], list[int]]]


@dataclass(frozen=True, kw_only=True)
class TranslatorRow:
    """Pairs of equal lengths, or of lengths around a mean; in all rows as many tokens fit into a batch.

    Uneven pairs are packed where kernels know how to read them, as a run does; even ones only if `packed`.
    """

    config: Seq2SeqConfig = BASE
    even: bool
    packed: bool = False
    rows: int = 400
    length: int = 64
    mean: float = 22.0
    longest: int = 128
    pairs: int = 40_000
    steps: int = 15
    warm_up: int = 15


ROWS = {
    "equal": TranslatorRow(even=True),
    "packed": TranslatorRow(even=True, packed=True),
    "real": TranslatorRow(even=False, warm_up=100, steps=40),
}


def translators(options: BenchOptions) -> list[Measurement]:
    """Measure a translator's training on equal lengths, padded and packed, and on real lengths."""
    found: list[Measurement] = []
    for name, row in ROWS.items():
        if options.row(name, ROWS):
            found += _measure(name, _tiny(row) if options.tiny else row, options)
    ours = {each.row: each for each in found if each.runner == OURS}
    if {"equal", "packed"} <= ours.keys():
        fraction = ours["packed"].rate / ours["equal"].rate
        ours["packed"].note = f"{fraction:.0%} of the rate of padded rows of the same pairs"
    even = [ours[name].rate for name in ("equal", "packed") if name in ours]
    if even and "real" in ours:
        fraction = ours["real"].rate / (2 * max(even))  # rows of equal lengths count their targets only
        ours["real"].note = f"{fraction:.0%} of the tokens per second of equal lengths"
    return found


def _tiny(row: TranslatorRow) -> TranslatorRow:
    small = replace(row.config, vocab=40, dim=16, layers=1, heads=2, ffn_dim=32)
    sizes = {"rows": 8, "length": 8, "mean": 5.0, "longest": 12, "pairs": 40, "steps": 2, "warm_up": 2}
    return replace(row, config=small, **sizes)  # pyright: ignore[reportArgumentType]


def random_pairs(row: TranslatorRow, seed: int) -> Pairs:
    """Pairs of random tokens; the lengths of real ones spread as those of sentences do, a target near its source."""
    random = np.random.default_rng(seed)
    if row.even:
        count = max(row.pairs // 4, 2 * row.rows)
        sides = np.full((count, 2), row.length)
    else:
        drawn = random.lognormal(np.log(row.mean) - 0.45**2 / 2, 0.45, row.pairs)
        other = drawn * random.lognormal(0, 0.15, row.pairs)
        sides = np.rint(np.stack([drawn, other], 1)).astype(int).clip(2, row.longest)
    return [
        tuple(random.integers(FIRST_WORD, row.config.vocab, n).tolist() for n in (source, target - 1))
        for source, target in sides.tolist()
    ]  # pyright: ignore[reportReturnType] - two sides


def _measure(name: str, row: TranslatorRow, options: BenchOptions) -> list[Measurement]:
    pairs, device = random_pairs(row, options.seed), options.device
    kernels = device.graphs and device.bf16  # as a run does: pairs are packed where kernels know how to read them
    if row.packed and not kernels and not options.tiny:
        options.skip(f"{name} is left out: packed rows of this size need a GPU and bfloat16")
        return []

    def batches(kind: type[PairBatches] = PairBatches) -> PairBatches:
        return kind(pairs, row.rows * row.length, PAD, START, EOS, options.seed)

    ours = partial(batches, PackedPairBatches if row.packed or (kernels and not row.even) else PairBatches)
    objective = replace(TranslateTask.objective, longest=ours().longest)
    candidates: dict[str, Callable[[], Runner]] = {
        OURS: lambda: our_runner(row.config, ours, objective, RECIPE, device, counted=not row.even),
        TORCH: lambda: torch_runner(row, batches, options),
    }
    runners = options.runners(candidates)
    work = TimedWork(
        suite="translate", name=name, unit="target tokens/s" if row.even else "tokens/s", amount=row.rows * row.length,
        steps=row.steps, warm_up=row.warm_up, apart=check_equal(row, options) if len(runners) > 1 else {},
    )  # fmt: skip
    return measure(work, runners, options.rounds, device.device, options.say)


def torch_runner(row: TranslatorRow, batches: Callable[[], PairBatches], options: BenchOptions) -> Runner:
    """A runner that trains torch's Transformer on the same batches; without a padding mask where nothing is padded."""
    device, seen = options.device, [0]

    def start() -> Step:
        model = TranslatorLoss(TorchTranslator(row.config, max(row.length, row.longest) + 1), RECIPE.label_smoothing)
        model.to(device.device).train()
        optimizer = torch.optim.AdamW(model.parameters(), 7e-4, RECIPE.betas, weight_decay=0.0, fused=True)
        compiled = device.compile is not False
        stepped = torch.compile(model, dynamic=None if row.even else True) if compiled else model
        data = batches()

        def step() -> None:
            batch = next(data)
            seen[0] += int(batch["attention_mask"].sum()) + int((batch["targets"] != IGNORE).sum())
            here = device.move(batch)
            padding = None if row.even else ~here["attention_mask"]
            with autocast(device):
                loss = stepped(here["source"], here["target"], here["targets"], padding)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        return step

    return Runner(TORCH, start, None if row.even else lambda: seen[0])


@torch.no_grad()
def check_equal(row: TranslatorRow, options: BenchOptions) -> dict[str, float]:
    """How far torch's logits are from ours in float32, with our weights; raises if that is too far."""
    config, device = replace(row.config, dropout=0.0), options.device.device
    ours = build(config, seed=options.seed).to(device).eval()
    draw_vectors(ours)
    theirs = TorchTranslator(config, row.length).to(device)
    copy_to_torch(ours.state_dict(), theirs)
    source, target = (torch.randint(FIRST_WORD, config.vocab, (3, row.length), device=device) for _ in range(2))
    real = torch.arange(row.length, device=device) < torch.tensor([[row.length], [row.length // 2], [2]], device=device)
    with torch.enable_grad(), exact_products():  # without it torch takes another way through its encoder
        apart = relative_distance(theirs(source, target, ~real), ours(source, target, real))
    require_near(TORCH, apart)
    return {TORCH: apart}
