"""Defaults that follow from the machine and from the data: sizes by name, a vocabulary and regularization that fit."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast, get_args

import torch

from glassformer.layers.config import Config

SizeName = Literal["tiny", "small", "base"]
SIZES: Mapping[str, Mapping[str, object]] = {  # keys that a task does not have are left out
    "tiny": {},  # the defaults of the tasks: about a minute or two on two cores
    "small": {
        "model.dim": 256, "model.layers": 6, "model.heads": 8, "model.context": 256, "data.max_length": 256,
        "data.tokens_per_batch": 8192, "tokenizer.vocab_size": 8000, "recipe.steps": 3000,
    },
    "base": {
        "model.dim": 512, "model.layers": 8, "model.heads": 8, "model.context": 512, "data.max_length": 512,
        "data.batch_size": 32, "data.tokens_per_batch": 16384, "tokenizer.vocab_size": 16000, "recipe.steps": 10000,
    },
}  # fmt: skip
SHAPE = ("context", "dim", "layers", "heads", "dropout")  # what models of different families have in common
MANY_CORES, MUCH_MEMORY = 8, 16e9  # from which a CPU trains the size "small"
LITTLE_DATA = 10e6  # bytes, too few for the size "base"
SMALLEST_VOCAB, BYTES_PER_ENTRY = 500, 500  # of a tokenizer that is trained
BYTES_PER_TOKEN = 3
COMPRESSED, RATIO = (".gz", ".xz"), 3
MEMORIZED = 10e3  # bytes: less is memorized, with regularization or without
EPOCHS, REGULARIZATION = 3, 0.1  # from so many passes over the data, dropout and weight decay of this much
TRAINED_VOCAB = ("bpe", "wordpiece", "unigram")  # tokenizers whose vocabulary can have any size


def usual_size(gpu: bool, data: int | None) -> SizeName:
    """The size that suits the machine and the data."""
    if gpu:
        return "small" if data is not None and data < LITTLE_DATA else "base"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return "small" if (os.cpu_count() or 1) >= MANY_CORES and memory >= MUCH_MEMORY else "tiny"


def has_gpu(device: str) -> bool:
    """Whether a run on this device computes on a GPU."""
    return device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())


def data_size(*paths: str) -> int | None:
    """Bytes of text in files and folders, roughly where they are compressed; None if there is no such file."""
    if not paths or not all(Path(path).exists() for path in paths):
        return None
    inside = [file for path in map(Path, paths) for file in (path.rglob("*") if path.is_dir() else [path])]
    return sum(file.stat().st_size * (RATIO if file.suffix in COMPRESSED else 1) for file in inside if file.is_file())


def resized(config: Config, like: Mapping[str, object]) -> Config:
    """A configuration of another family with the shape of the given keys; what depends on its dimension follows.

    A context without a limit stays without one, as Hugging Face's T5 is.
    """
    has = vars(config)
    shape = {name: like[f"model.{name}"] for name in SHAPE if has.get(name) is not None and f"model.{name}" in like}
    if "heads" not in has:
        shape.pop("layers", None)  # a recurrent layer is not a block: one or two do
    if has.get("ffn_dim") is not None:
        shape["ffn_dim"] = max(has["ffn_dim"] * cast(int, shape["dim"]) // has["dim"], 1)
    if has.get("head_dim") is not None:
        shape["head_dim"] = max(cast(int, shape["dim"]) // cast(int, shape["heads"]), 1)
    return replace(config, **shape)


def for_data(values: Mapping[str, object], size: int) -> dict[str, object]:
    """Values that suit this many bytes of data: fewer tokens, dropout and weight decay for little of it."""
    chosen: dict[str, object] = {}
    if values.get("tokenizer.kind") in TRAINED_VOCAB and not values["tokenizer.file"]:
        usual = cast(int, values["tokenizer.vocab_size"])
        chosen["tokenizer.vocab_size"] = min(usual, max(size // BYTES_PER_ENTRY, SMALLEST_VOCAB))
    epochs = cast(int, values["recipe.steps"]) * _tokens_per_step(values) * BYTES_PER_TOKEN / max(size, 1)
    if size >= MEMORIZED and epochs > EPOCHS:
        chosen["model.dropout"] = REGULARIZATION
        if values["recipe.optimizer"] in ("adamw", "muon"):
            chosen["recipe.weight_decay"] = REGULARIZATION
    return {key: value for key, value in chosen.items() if key in values}


def _tokens_per_step(values: Mapping[str, object]) -> int:
    rows = cast(int, values.get("data.batch_size", 1))
    tokens = cast(int, values.get("data.tokens_per_batch", rows * cast(int, values.get("data.max_length", 1))))
    return tokens * cast(int, values["recipe.gradient_accumulation"])


NAMES: tuple[str, ...] = get_args(SizeName)
