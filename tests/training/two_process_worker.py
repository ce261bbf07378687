"""A program of two processes: each case trains a small model in both and writes what came out."""

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from glassformer.data.batches import Batches
from glassformer.data.caption_batches import CaptionBatches, PixelScale, Variation
from glassformer.data.captions import CaptionedImages
from glassformer.data.packed_batches import MaskedBatches, Masking
from glassformer.errors import GlassformerError, InterruptedRunError
from glassformer.layers.model import Model
from glassformer.models.clip import CLIPConfig
from glassformer.models.encoder import EncoderConfig
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.training import run as run_module
from glassformer.training.config import from_settings
from glassformer.training.device import Device
from glassformer.training.distributed import ALONE, ProcessGroup, process_group, unsharded
from glassformer.training.loop import train
from glassformer.training.objective import Objective
from glassformer.training.recipe import Recipe
from glassformer.training.run_folder import RunFolder
from glassformer.training.running_text import TextData
from glassformer.training.settings import RunSettings, TokenizerSettings
from glassformer.training.tasks.clip import PAIRS
from glassformer.training.tasks.gpt import GPTSettings
from glassformer.training.tasks.masked import MASKED_TOKENS
from glassformer.training.text_pairs import NEXT_TARGET_TOKEN
from tests.training.tiny_run import PAIR_CONFIG, TOKENS, pair_batches, recipe

MASKED = EncoderConfig(vocab=13, context=6, dim=8, layers=2, heads=2, ffn_dim=16, token_types=0, head="masked")
PAIRED = CLIPConfig(
    vocab=13, context=6, text_dim=8, text_layers=1, text_heads=2, text_ffn_dim=12, image_size=4, patch_size=2,
    image_dim=8, image_layers=1, image_heads=2, image_ffn_dim=12, embedding_dim=6, eos=3,
)  # fmt: skip
TrainingParts = tuple[Model, Callable[[int, int], Batches], Objective]


def translator() -> TrainingParts:
    """Pairs of uneven lengths, padded; some of the last batch of a pass have one row."""
    return build(PAIR_CONFIG).double(), pair_batches, NEXT_TARGET_TOKEN


def masked() -> TrainingParts:
    """Windows with as many hidden tokens here as there, and a short one at the end of a pass."""

    def batches(rank: int, world: int) -> MaskedBatches:
        return MaskedBatches(TOKENS, 3, 6, Masking(mask=12, vocab=11), 1, rank, world)

    return build(MASKED).double(), batches, MASKED_TOKENS


def pairs() -> TrainingParts:
    """Pictures and captions, each told apart from those of both processes; two captions are the same."""
    random = np.random.default_rng(0)
    pictures = CaptionedImages(
        random.integers(0, 256, (11, 4, 4, 3), dtype=np.uint8), tuple((str(i % 10),) for i in range(11)), ("x",) * 11
    )
    tokens = [[[1, *random.integers(4, 13, i % 3 + 1).tolist(), 3]] for i in range(11)]

    def batches(rank: int, world: int) -> CaptionBatches:
        found = CaptionBatches(pictures, tokens, PixelScale((0.5,) * 3, (0.5,) * 3), 5, 0, 1, rank, world)
        found.variation = Variation("light", mirror=True, token_dropout=0.3)
        return found

    model = build(PAIRED).double()
    return model, InDouble(batches), PAIRS


class InDouble:
    """Batches whose pixels are in double precision, as the model is."""

    def __init__(self, batches: Callable[[int, int], CaptionBatches]) -> None:
        self.batches = batches

    def __call__(self, rank: int, world: int) -> CaptionBatches:
        found = self.batches(rank, world)
        scale = found.scale
        found.scale = lambda pixels: scale(pixels).double()  # pyright: ignore[reportAttributeAccessIssue]
        return found


MODELS = {"translator": translator, "masked": masked, "pairs": pairs}
CPU, RECOMPUTED = Device(), Device(activation_checkpointing=True)
HOW, RESUMED = recipe(steps=6), recipe(steps=8, ema_decay=0.9)


def learn(
    name: str, how: Recipe, group: ProcessGroup = ALONE, folder: Path | None = None, device: Device = CPU
) -> dict[str, Any]:
    """Train to the end; the record and the weights, whole, as numbers."""
    model, batches, objective = MODELS[name]()
    shard = (group.rank, group.world_size)
    kept = None if folder is None else RunFolder(folder, keep=20)
    parts = (batches(*shard), objective, how, kept, batches(*shard), device, group)
    logs = [[log.step, log.loss, log.grad_norm, log.tokens, log.validation, log.note] for log in train(model, *parts)]
    return {"logs": logs, "weights": {name: unsharded(p.detach()).tolist() for name, p in model.named_parameters()}}


def said(error: BaseException) -> dict[str, object]:
    """What an error says."""
    kind = "ours" if isinstance(error, GlassformerError) else "".join(traceback.format_exception(error))
    return {"error": str(error), "kind": kind, "status": getattr(error, "status", None)}


def resumed(group: ProcessGroup, path: Path) -> dict[str, object]:
    """A run unbroken, and one that both processes are told to stop, of which only one is in time to hear it."""
    unbroken = learn("translator", RESUMED, group, path / "unbroken")
    stopped: dict[str, object] = {}
    handle = signal.getsignal(signal.SIGTERM)
    try:
        Stopping.at, Stopping.rank = 5, group.rank
        learn("stopping", RESUMED, group, path / "stopped")
    except InterruptedRunError as error:
        stopped = said(error)
    finally:
        signal.signal(signal.SIGTERM, handle)
    return {
        "unbroken": unbroken,
        "stopped": stopped,
        "resumed": learn("translator", RESUMED, group, path / "stopped"),
    }


class Stopping:
    """Batches in the middle of which the first process alone is told to stop."""

    at, rank = 0, 0

    def __new__(cls, rank: int, world: int) -> Batches:
        made = pair_batches(rank, world)
        give, given = made._make, 0

        def make(*args: object) -> object:
            nonlocal given
            given += 1
            if given == 2 * cls.at and cls.rank == 0:
                os.kill(os.getpid(), signal.SIGTERM)
            return give(*args)  # pyright: ignore[reportArgumentType]

        made._make = make  # pyright: ignore[reportAttributeAccessIssue]
        return made


MODELS["stopping"] = lambda: (build(PAIR_CONFIG).double(), Stopping, NEXT_TARGET_TOKEN)


def spoiled(group: ProcessGroup) -> dict[str, object]:
    """A number that is not finite: in what only the second process computes, or in a weight that both share."""
    model, batches, objective = translator()
    layer = dict(model.named_modules())["encoder.blocks.0.feed_forward.down"]
    if group.strategy == "fsdp":
        dict(layer.named_parameters())["weight"].data[-1, -1] = torch.inf
    elif group.rank == 1:
        layer.register_forward_hook(lambda module, inputs, output: output * torch.inf)
    list(train(model, batches(group.rank, group.world_size), objective, HOW, process_group=group))
    return {}


def ran(group: ProcessGroup, path: Path) -> dict[str, object]:
    """A whole run, from a file to a model in a folder, by processes that have met already."""
    strategy = group.strategy
    settings = GPTSettings(
        data=TextData(path=str(path / "text.txt"), batch_size=4, max_length=8, validation_fraction=0.2),
        tokenizer=TokenizerSettings(kind="characters"),
        model=GPTConfig(dim=8, layers=1, heads=2, context=8),
        recipe=recipe(steps=4, ema_decay=0.5),
        run=RunSettings(device="cpu", precision="float32", strategy=strategy),
    )
    run = run_module.prepare(from_settings(settings), path / f"run {strategy}", lambda text: None)
    with patch.object(run_module, "process_group", lambda *_: nullcontext(group)):
        return {"logs": [[log.step, log.loss, log.validation] for log in run.train()]}


def cases(group: ProcessGroup, path: Path) -> dict[str, object]:
    """Everything, in one pair of processes, since they take seconds to start."""
    found: dict[str, object] = {}
    for strategy in ("ddp", "fsdp"):
        here = replace(group, strategy=strategy)
        for model in ("translator", "masked", "pairs"):
            found[f"{strategy} {model}"] = attempt(lambda s=model, h=here: learn(s, HOW, h))
            again = partial(learn, model, HOW, here, device=RECOMPUTED)
            found[f"{strategy} recomputed {model}"] = attempt(again)
        found[f"{strategy} resumed"] = attempt(lambda h=here, s=strategy: resumed(h, path / s))
        found[f"{strategy} spoiled"] = attempt(lambda h=here: spoiled(h))
        muon = replace(HOW, optimizer="muon")
        found[f"{strategy} run"] = attempt(lambda h=here: ran(h, path))
        found[f"{strategy} muon"] = attempt(lambda h=here, how=muon: learn("translator", how, h))
    return found


def attempt(case: Callable[[], dict[str, object]]) -> dict[str, object]:
    """What a case gives, or what went wrong with it."""
    try:
        return case()
    except Exception as error:
        return said(error)


def main() -> None:
    """Do all cases in this process and in a copy of it, which need not load torch again, and write what came out."""
    path, copy = Path(sys.argv[1]), os.fork()
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = "0" if copy else "1"
    with process_group("ddp", Device()) as group:
        (path / f"{group.rank}.json").write_text(json.dumps(cases(group, path)))
    if copy:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]))


if __name__ == "__main__":
    main()
