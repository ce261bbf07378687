"""`gf.load`: read a model with its tokenizer and labels from a folder or file."""

import shlex
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import torch

from glassformer.checkpoints.adapter import (
    AdapterTensors,
    adapter_tensors,
    base_folder,
    fill_from_base,
    has_adapter,
    merge_updates,
    read_adapter_config,
)
from glassformer.checkpoints.atomic_save import newest_set
from glassformer.checkpoints.huggingface import FAMILIES, HFModel, known_hf_model, read_hf_model
from glassformer.checkpoints.llama2c import Llama2C, is_llama2c, read_llama2c_tokenizer
from glassformer.checkpoints.native import KIND, read_native
from glassformer.checkpoints.preprocessor import with_preprocessor
from glassformer.checkpoints.run_checkpoints import (
    LORA_ALPHA,
    MODEL_CONFIG,
    CheckpointWeights,
    best_checkpoint,
    checkpoint_steps,
    goes_on,
    holds_run,
    run_model,
)
from glassformer.checkpoints.sentence import is_sentence_model
from glassformer.checkpoints.tensor_files import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    CONFIG_FILE,
    CONFIG_TEXT,
    GENERATION,
    TensorFiles,
    weight_files,
)
from glassformer.checkpoints.tensor_map import as_in_file, fill_model, native_rows
from glassformer.errors import CheckpointError, ConfigError, PathError, RunFolderWarning
from glassformer.layers.config import Config
from glassformer.layers.lora import LORA_A, LORA_B, merged_weight
from glassformer.layers.model import Model
from glassformer.models.registry import build
from glassformer.safe_read import PICKLES, is_pickle, parse_table, pickle_refusal, read_table
from glassformer.text.tokenizer import Tokenizer, has_tokenizer

Into: TypeAlias = tuple[torch.device | str, torch.dtype | None]  # where the parameters go, and their dtype


@dataclass(frozen=True)
class Loaded:
    """A model ready to run, and what came with it.

    `hf_model` is its Hugging Face family with the other fields of its config.json, kept as data; `left_out` names
    tensors of a head that the model does not have.
    """

    model: Model
    tokenizer: Tokenizer | None = None
    labels: tuple[str, ...] | None = None
    hf_model: HFModel | None = None
    left_out: tuple[str, ...] = ()


def load(
    path: Path | str,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
    step: int | None = None,
    adapter: Path | str | None = None,
) -> Loaded:
    """Load a model from a run folder, a Hugging Face folder or a single file; no code in it is executed.

    Parameters keep the dtype they are stored in unless `dtype` gives another, and are read one tensor at a time. Of
    an unfinished run the best checkpoint is taken, or else the latest; `step` chooses one of any run. The folder of a
    LoRA adapter is loaded with its base model, and merged; `adapter` names one for the model at `path`.
    """
    if path == "":
        raise PathError("the path of the model is empty, wanted a folder or a file")
    path = Path(path)
    if adapter is not None:
        return _with_adapter(_load_base(path, (device, dtype), step), _adapter_folder(Path(adapter)))
    if path.is_dir() and step is None and has_adapter(newest_set(path)) and not goes_on(path):
        beside = any((each / CONFIG_FILE).exists() for each in (newest_set(path), path))
        base = path if beside else base_folder(newest_set(path))
        return _with_adapter(_load_base(base, (device, dtype), None), path)
    return _load_base(path, (device, dtype), step)


def _load_base(path: Path, into: Into, step: int | None) -> Loaded:
    """The model at a path, without an adapter that may be beside it."""
    if path.is_dir():
        return _load_folder(path, into, step)
    if not path.exists():
        raise PathError(f"{path}: there is no such file or folder")
    if step is not None:
        raise PathError(f"{path}: is a file, and step {step} was asked for: wanted the folder of a run")
    if path.suffix == ".safetensors":
        return _load_file(path, into)
    if is_llama2c(path):
        return _load_llama2c(path, into)
    if path.suffix in PICKLES or is_pickle(path):
        raise pickle_refusal(path)
    raise PathError(f"{path}: unsupported model file; wanted a folder, a .safetensors file or a llama2.c checkpoint")


def _load_folder(folder: Path, into: Into, step: int | None) -> Loaded:
    root = newest_set(folder)
    if has_adapter(root) and not (root / CONFIG_FILE).exists():
        root = folder  # an adapter is being saved beside the model
    if step is not None:
        loaded = _load_checkpoint(folder, step, into)
    elif (root / CONFIG_FILE).exists() and not goes_on(folder):
        source = TensorFiles(weight_files(root))
        loaded = _load_tensors(read_table(root / CONFIG_FILE), source, root, into)
    elif holds_run(folder):
        loaded = _load_unfinished(folder, into)
    else:
        raise PathError(f"{folder}: has no {CONFIG_FILE}, which says what model it holds")
    for candidate in (root, folder):
        if has_tokenizer(candidate):
            return replace(loaded, tokenizer=Tokenizer.load(candidate))
    return loaded


def _adapter_folder(folder: Path) -> Path:
    if not has_adapter(newest_set(folder)):
        raise PathError(f"{folder}: has no {ADAPTER_CONFIG}, so it holds no adapter")
    return folder


def _with_adapter(loaded: Loaded, folder: Path) -> Loaded:
    """A model with the adapter of a folder merged into it, and the tokenizer beside the adapter if there is one.

    The base model is changed in place unless the adapter brings another head.
    """
    root = newest_set(folder)
    config, source, where = read_adapter_config(root), adapter_tensors(root), str(root / ADAPTER_WEIGHTS)
    found = _with_head(loaded, source, where)
    hf_model = found.hf_model or known_hf_model(found.model.config)
    rows, base = ([], "") if hf_model is None else (hf_model.rows, hf_model.family.base)
    updates = AdapterTensors(source, where, [*native_rows(found.model), *rows], base)
    if found.model is not loaded.model:
        fill_from_base(found.model, loaded.model, updates)
    merge_updates(found.model.eval(), updates, config)
    home = next((each for each in (root, folder) if has_tokenizer(each)), None)
    return found if home is None else replace(found, tokenizer=Tokenizer.load(home))


def _with_head(loaded: Loaded, source: TensorFiles, where: str) -> Loaded:
    """A base model, or an empty one in its place if the configuration in an adapter has another head."""
    if CONFIG_TEXT not in source.metadata:
        return loaded
    about, model, hf_model = f"{where}: its configuration", loaded.model, loaded.hf_model
    table = parse_table(source.metadata[CONFIG_TEXT].encode(), about)
    config, labels = read_native(table, len(source.shapes) + len(list(model.parameters())), about)
    if config != model.config:
        model = empty_model(config, about)
        hf_model = None if hf_model is None else replace(hf_model, config=config, labels=labels)
    return replace(loaded, model=model, hf_model=hf_model, labels=labels or loaded.labels)


def _load_unfinished(folder: Path, into: Into) -> Loaded:
    """The best checkpoint of an unfinished run, or else the latest that is whole."""
    steps, best = checkpoint_steps(folder), best_checkpoint(folder)
    for step in sorted(steps, key=lambda step: (step == best, step), reverse=True):
        try:
            loaded = _load_checkpoint(folder, step, into)
        except CheckpointError as error:
            warnings.warn(f"{error}; another checkpoint is tried", RunFolderWarning, stacklevel=4)
            continue
        which, known = "best" if step == best else "latest", ", ".join(map(str, steps))
        used = f"using its {which} checkpoint, step {step} (there are: {known})"
        warnings.warn(f"{folder}: the run is not finished; {used}", RunFolderWarning, stacklevel=4)
        return loaded
    how = f"glassformer train --resume --out {shlex.quote(str(folder))}"
    raise PathError(f"{folder}: holds a run without a whole checkpoint yet; continue it with: {how}")


def _load_checkpoint(folder: Path, step: int, into: Into) -> Loaded:
    """The model of one step of a run."""
    (table, alpha), where = run_model(folder), str(folder / MODEL_CONFIG)
    if alpha is not None and not (isinstance(alpha, float) and alpha > 0):
        raise CheckpointError(f"{where}: {LORA_ALPHA} is {repr(alpha)[:80]}, wanted a number above 0")
    source = CheckpointWeights(folder, step)
    config, labels = read_native(table, len(source.shapes), where)
    model = empty_model(config, where)
    rows = native_rows(model)
    source.keep(row.hf for row in rows)
    model = fill_model(model, rows, source, str(source.folder), *into)
    if alpha is not None:
        _merge_updates(model, source, alpha)
    return Loaded(model, labels=labels)


@torch.no_grad()
def _merge_updates(model: Model, source: CheckpointWeights, alpha: float) -> None:
    """Merge the LoRA matrices of a checkpoint into the weights of its model."""
    for name, weight in model.named_parameters():
        a, b = (f"{name.removesuffix('.weight')}.{part}" for part in (LORA_A, LORA_B))
        if source.holds(a) and source.holds(b):
            weight.copy_(merged_weight(weight, source.read(a).to(weight), source.read(b).to(weight), alpha))


def _load_file(path: Path, into: Into) -> Loaded:
    source = TensorFiles(path)
    if CONFIG_TEXT in source.metadata:
        table = parse_table(source.metadata[CONFIG_TEXT].encode(), f"{path}: its configuration")
    elif (path.parent / CONFIG_FILE).exists():
        table = read_table(path.parent / CONFIG_FILE)
    else:
        raise CheckpointError(f"{path}: has no configuration in it and no {CONFIG_FILE} beside it")
    return _load_tensors(table, source, path.parent, into)


def _load_llama2c(path: Path, into: Into) -> Loaded:
    source = Llama2C(path)
    rows = HFModel(FAMILIES["llama"], source.config).rows
    model = fill_model(empty_model(source.config, str(path)), rows, source, str(path), *into)
    for name in (f"tok{source.config.vocab}.bin", "tokenizer.bin"):
        if path.with_name(name).exists():
            return Loaded(model, read_llama2c_tokenizer(path.with_name(name), source.config.vocab))
    return Loaded(model)


def _load_tensors(table: Mapping[str, object], source: TensorFiles, root: Path, into: Into) -> Loaded:
    """A model from a config.json and its tensors."""
    names, where = source.shapes, str(root / CONFIG_FILE)
    if KIND in table:
        config, labels = read_native(table, len(names), where)
        model = empty_model(config, where)
        return Loaded(fill_model(model, native_rows(model), source, str(root), *into), labels=labels)
    found = read_hf_model(table, names, where)
    if (root / GENERATION).exists():
        found = replace(found, generation=read_table(root / GENERATION))
    if found.head not in ("", "lm") and is_sentence_model(root):
        found = replace(found, config=replace(found.config, head="sentence"))
    found = replace(found, config=with_preprocessor(found.config, root))
    rows = as_in_file(found.rows, names, found.family.base)
    model = fill_model(empty_model(found.config, str(root)), rows, source, str(root), *into)
    left_out = tuple(row.hf for row in rows if row.left_out and row.hf in names)
    return Loaded(model, labels=found.labels, hf_model=found, left_out=left_out)


def empty_model(config: Config, where: str) -> Model:
    """A model on the meta device, which takes no memory."""
    try:
        return build(config, device="meta")
    except ConfigError as error:
        raise CheckpointError(f"{where}: {error}") from None
