"""`glassformer convert`: a checkpoint from one format to another."""

from typing import Literal

from glassformer.cli.named_model import ModelName, preset_called, random_model
from glassformer.cli.report import Json, RunStep, SomePath, UsageError, named_as_options, talk, write_json


def convert(
    source: ModelName,
    target: SomePath,
    /,
    *,
    format: Literal["auto", "hf", "native"] = "hf",
    dtype: Literal["float64", "float32", "float16", "bfloat16"] | None = None,
    step: RunStep = None,
    json: Json = False,
) -> None:
    """Convert a checkpoint to the Hugging Face or the native format.

    Parameters
    ----------
    target
        Output folder, which may hold other files but neither a model nor a run.
    format
        hf opens in transformers, native keeps every option, auto is hf if the model has a family there.
    dtype
        Weight dtype; as stored if left out.
    """
    import torch

    from glassformer.checkpoints.load import Loaded, load
    from glassformer.checkpoints.save import model_files, save
    from glassformer.training.run_files import run_files

    if taken := next((part for part in (target, *target.parents) if part.exists() and not part.is_dir()), None):
        raise UsageError(f"{taken}: is a file, wanted a folder to write to")
    if found := [*model_files(target), *run_files(target)]:
        raise UsageError(f"{target}: already holds a model or a run ({found[0]}): name another folder")
    config = preset_called(source, step)
    into = None if dtype is None else getattr(torch, dtype)
    if config is None:
        loaded = load(source, dtype=into, step=step)
    else:
        loaded = Loaded(random_model(source, config).to(into))
        talk(f"{source} is a preset: it has random weights")
    with named_as_options("format"):
        save(loaded.model, target, loaded.tokenizer, loaded.labels, format, loaded.hf_model)
    for name in loaded.left_out:
        talk(f"{name} belongs to a head that was dropped")
    count = loaded.model.parameter_count()
    talk(f"wrote {type(loaded.model).__name__} with {count:,} parameters to {target}")
    if json:
        files = sorted(path.name for path in target.iterdir() if path.is_file())
        write_json({"model": type(loaded.model).__name__, "parameters": count, "target": str(target), "files": files})
