"""A model by its name, the same in every command: a folder, a file, or a preset with random weights."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Parameter

from glassformer.cli.report import RunStep, UsageError, talk
from glassformer.suggestions import did_you_mean

if TYPE_CHECKING:
    from glassformer.checkpoints.vectors import WordVectors
    from glassformer.interface import LoadedModel
    from glassformer.layers.config import Config
    from glassformer.layers.model import Model

FLOAT_BYTES = 4
LARGE_FILE = 20e6  # bytes of word vectors
BYTES = 261  # tokens of a tokenizer without merges: five special ones, and every byte

ModelName: TypeAlias = Annotated[
    str, Parameter(help="Folder or file of a model, or a preset, which has random weights.")
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """How to load the model.

    Parameters
    ----------
    device
        Device: auto, cpu, cuda or cuda:1; auto is a GPU if there is one.
    weights
        Weight dtype: as stored, float32 or bfloat16; or quantization to int8 or int4, which is faster and less precise.
    """

    step: RunStep = None
    device: str = "auto"
    weights: Literal["stored", "float32", "bfloat16", "int8", "int4"] = "stored"


AS_STORED = LoadOptions()


def preset_called(name: str, step: int | None = None) -> "Config | None":
    """The preset of this name, or None for a folder or file; a preset has no checkpoints, so no `step` either."""
    from glassformer.models.registry import presets

    if not name:
        raise UsageError("the name of the model is empty, wanted a folder, a file or a preset")
    if Path(name).exists():
        return None
    if name not in presets():
        lists = "`glassformer models` lists the presets"
        near = lists if os.sep in name else did_you_mean(name, presets(), lists)
        raise UsageError(f"there is no folder, file or preset {name!r}; {near}")
    if step is not None:
        raise UsageError("--step chooses a checkpoint of a run, and a preset has none: leave one out")
    return presets()[name]


def random_model(name: str, config: "Config") -> "Model":
    """A preset with random weights, if they fit into memory."""
    import torch

    from glassformer.models.registry import build
    from glassformer.probes.trace import free_memory

    needed, free = build(config, device="meta").parameter_count() * FLOAT_BYTES, free_memory(torch.device("cpu"))
    if free is not None and needed > free:
        sizes = f"{needed / 1e9:.0f} GB of weights and {free / 1e9:.0f} GB are free"
        raise UsageError(f"{name} has {sizes}: choose a smaller preset")
    return build(config).eval()


def vectors_named(name: str) -> "WordVectors | None":
    """The word vectors of a file, or None for a model; a large file is announced, since reading it takes a while."""
    from glassformer.checkpoints.vectors import is_vectors_file, load_vectors

    if not is_vectors_file(name):
        return None
    if (size := Path(name).stat().st_size) > LARGE_FILE:
        talk(f"reading word vectors from {name}, {size / 1e6:,.0f} MB")
    return load_vectors(name)


def load_named(name: str, options: LoadOptions = AS_STORED) -> "LoadedModel":
    """The model of a folder or file, or a preset with random weights that reads and writes bytes."""
    import torch

    from glassformer.inference.prepare import for_inference
    from glassformer.interface import LoadedModel, load
    from glassformer.text.learn_tokenizer import learn_tokenizer
    from glassformer.training.device import choose_device

    device = choose_device(options.device, "float32", "no").device
    quantization = options.weights if options.weights in ("int8", "int4") else None
    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}.get(options.weights)
    config = preset_called(name, options.step)
    if config is not None:
        model = random_model(name, config).to(device, dtype)
        talk(f"{name} is a preset: it has random weights, and reads and writes bytes because it has no tokenizer")
        model = model if quantization is None else for_inference(model, quantization, copy=False)
        return LoadedModel(model, learn_tokenizer(["-"], "bpe", BYTES))
    return load(name, device, dtype, options.step, quantization)
