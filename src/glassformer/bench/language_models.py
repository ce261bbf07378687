"""Training language models beside nanoGPT and Hugging Face's GPT-2: the suites `train`, `small` and `cpu`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Integer

from glassformer.bench.distance import exact_products, require_near
from glassformer.bench.measure import OURS, Measurement, Runner, TimedWork, measure
from glassformer.bench.nanogpt import NANOGPT, NANOGPT_BIASES, NANOGPT_COMPILED, nanogpt_apart, nanogpt_runner
from glassformer.bench.options import BenchOptions
from glassformer.bench.our_training import our_runner
from glassformer.bench.peer_decoding import HUGGING_FACE
from glassformer.bench.peer_gpt2 import (
    X_TRANSFORMERS,
    hugging_face_apart,
    hugging_face_runner,
    x_transformers_runner,
)
from glassformer.data.packed_batches import PackedBatches
from glassformer.layers.config import Config
from glassformer.models.gpt import GPTConfig
from glassformer.models.modern import ModernConfig
from glassformer.training.objective import NEXT_TOKEN
from glassformer.training.recipe import Recipe

COMPARED = 4  # blocks of a model whose logits are compared: more of them show nothing new
VOCAB = 50304  # nanoGPT's: GPT-2's, rounded up to a multiple of 64

Tokens = Integer[np.ndarray, " tokens"]


@dataclass(frozen=True, kw_only=True)
class LanguageModelRow:
    """A model and the batches it is trained on; `like` is the GPT that peers train, the model itself if it is one."""

    model: Config
    rows: int
    length: int
    recipe: Recipe
    like: GPTConfig
    steps: int = 10
    warm_up: int = 12
    default: bool = True
    peers: tuple[str, ...] = (NANOGPT,)


def _recipe(learning_rate: float, rho: float, optimizer: str = "adamw") -> Recipe:
    """nanoGPT's settings, as far as they bear on speed; long enough that no schedule ends within a benchmark."""
    return Recipe(
        steps=1_000_000, learning_rate=learning_rate, warmup_steps=100, min_lr_ratio=0.1, betas=(0.9, rho),
        weight_decay=0.1, max_grad_norm=1.0, optimizer=optimizer,  # pyright: ignore[reportArgumentType]
    )  # fmt: skip


def _gpt(model: GPTConfig, rows: int, recipe: Recipe, **more: object) -> LanguageModelRow:
    row = LanguageModelRow(model=model, like=model, rows=rows, length=model.context, recipe=recipe)
    return replace(row, **more)  # pyright: ignore[reportArgumentType]


GPT2 = GPTConfig(vocab=VOCAB, activation="gelu")  # nanoGPT has the exact one
GPT2_RECIPE = _recipe(6e-4, 0.95)
_NANOGPTS = (NANOGPT, NANOGPT_BIASES)
_MEDIUM, _XL = replace(GPT2, dim=1024, layers=24, heads=16), replace(GPT2, dim=1600, layers=48, heads=25)
TRAIN = {
    "124M": _gpt(GPT2, 64, GPT2_RECIPE, peers=(*_NANOGPTS, HUGGING_FACE, X_TRANSFORMERS)),
    "350M": _gpt(_MEDIUM, 32, GPT2_RECIPE, default=False, steps=6, peers=_NANOGPTS),
    "1.5B": _gpt(_XL, 8, GPT2_RECIPE, default=False, steps=5, peers=_NANOGPTS),
}
_CHARACTERS = GPTConfig(vocab=65, context=256, dim=384, layers=6, heads=6, dropout=0.2, activation="gelu")
_MODERN = ModernConfig(vocab=65, context=256, dim=384, layers=6, heads=6, dropout=0.2)
SMALL = {
    "characters": _gpt(_CHARACTERS, 64, _recipe(1e-3, 0.99), steps=100, warm_up=60),
    "modern": LanguageModelRow(
        model=_MODERN, like=_CHARACTERS, rows=64, length=256, recipe=_recipe(1e-3, 0.99, "muon"), steps=100, warm_up=60
    ),
}
_README = GPTConfig(vocab=65, context=64, dim=128, layers=4, heads=4, activation="gelu")
CPU = {
    "10M": _gpt(_CHARACTERS, 8, _recipe(1e-3, 0.99), steps=2, warm_up=3, peers=(*_NANOGPTS, X_TRANSFORMERS)),
    "0.8M": _gpt(_README, 12, _recipe(1e-3, 0.99), steps=20, warm_up=10, peers=_NANOGPTS),
}
SUITES = {"train": TRAIN, "small": SMALL, "cpu": CPU}


def language_models(suite: str, options: BenchOptions) -> list[Measurement]:
    """Measure the rows of one of these suites."""
    found: list[Measurement] = []
    for name, row in SUITES[suite].items():
        if options.row(name, SUITES[suite], row.default):
            found += _measure(suite, name, _tiny(row) if options.tiny else row, options)
    return found


def _tiny(row: LanguageModelRow) -> LanguageModelRow:
    """The same with the smallest sizes."""
    small = {"vocab": 65, "context": 16, "dim": 32, "layers": 2, "heads": 2}
    model, like = replace(row.model, **small), replace(row.like, **small)  # pyright: ignore[reportArgumentType]
    return replace(row, model=model, like=like, rows=4, length=16, steps=2, warm_up=2)


def _measure(suite: str, name: str, row: LanguageModelRow, options: BenchOptions) -> list[Measurement]:
    tokens = np.random.default_rng(options.seed).integers(
        min(row.like.vocab, 50257), size=40 * row.rows * row.length + 1, dtype=np.uint16
    )
    runners = options.runners(_candidates(row, tokens, options))
    work = TimedWork(
        suite=suite, name=name, unit="tokens/s", amount=row.rows * row.length, steps=row.steps, warm_up=row.warm_up,
        apart=check_equal(row, {runner.name for runner in runners}, options),
    )  # fmt: skip
    return measure(work, runners, options.rounds, options.device.device, options.say)


def _candidates(row: LanguageModelRow, tokens: Tokens, options: BenchOptions) -> dict[str, Callable[[], Runner]]:
    def batches() -> PackedBatches:
        return PackedBatches(tokens, row.rows, row.length, seed=options.seed)

    found: dict[str, Callable[[], Runner]] = {
        OURS: lambda: our_runner(row.model, batches, NEXT_TOKEN, row.recipe, options.device)
    }
    shape = (row.like, row.recipe, row.rows, tokens)
    for name in (NANOGPT, NANOGPT_BIASES):
        if name in row.peers:
            found[name] = partial(nanogpt_runner, name, *shape, options)
    if NANOGPT in row.peers and options.device.device.type == "cpu" and not options.tiny:
        found[NANOGPT_COMPILED] = partial(nanogpt_runner, NANOGPT_COMPILED, *shape, options)
    if HUGGING_FACE in row.peers:
        found[HUGGING_FACE] = partial(hugging_face_runner, *shape, options)
    if X_TRANSFORMERS in row.peers:
        found[X_TRANSFORMERS] = partial(x_transformers_runner, *shape, options)
    return found


def check_equal(row: LanguageModelRow, names: set[str], options: BenchOptions) -> dict[str, float]:
    """How far the logits of the peers are from ours with the same weights; raises if that is too far."""
    if row.model is not row.like and row.model != row.like:
        return {}
    checks = {
        NANOGPT: nanogpt_apart,
        NANOGPT_BIASES: partial(nanogpt_apart, bias=True),
        NANOGPT_COMPILED: nanogpt_apart,
        HUGGING_FACE: hugging_face_apart,
    }
    config = replace(row.like, dropout=0.0, layers=min(row.like.layers, COMPARED))
    with exact_products():
        found = {name: checks[name](config, options) for name in checks if name in names}
    for name, apart in found.items():
        require_near(name, apart)
    return found
