"""`gf.load`: a folder or file in, a model out, with its tokenizer and the names of its classes."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from glassformer.checkpoints.families.llama import FAMILY_LLAMA
from glassformer.checkpoints.huggingface import Twin, read_twin
from glassformer.checkpoints.llama2c import Llama2C, is_llama2c, read_llama2c_tokenizer
from glassformer.checkpoints.naming import Row, as_in_file, expand, fill_model, require_bijection
from glassformer.checkpoints.ours import KIND, read_own
from glassformer.checkpoints.publish import newest_set
from glassformer.checkpoints.sentence import is_sentence_model
from glassformer.checkpoints.tensor_files import TensorFiles, TensorSource, read_index
from glassformer.checkpoints.untrusted import PICKLES, is_pickle, parse_table, pickle_refusal, read_table
from glassformer.errors import CheckpointError, ConfigError
from glassformer.layers.model import Model
from glassformer.models.build import build
from glassformer.models.encoder import EncoderConfig
from glassformer.models.presets import Config
from glassformer.text.tokenizer import Tokenizer, has_tokenizer

CONFIG_FILE, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
GENERATION = "generation_config.json"
CONFIG_TEXT = "glassformer.config"  # in a file's metadata: its config.json


@dataclass(frozen=True)
class Loaded:
    """A model ready to run, and what came with it.

    `twin` is the Hugging Face family it came in and what its config.json says beyond the model, kept as
    data; `left_out` names tensors of a head that the model was loaded without.
    """

    model: Model
    tokenizer: Tokenizer | None = None
    labels: tuple[str, ...] | None = None
    twin: Twin | None = None
    left_out: tuple[str, ...] = ()


def load(path: Path | str, device: torch.device | str = "cpu", dtype: torch.dtype | None = None) -> Loaded:
    """Read a run folder, a Hugging Face folder or a single file; nothing in it is ever run.

    Numbers keep the type they are stored in unless `dtype` gives another, and are read one tensor at a time.
    """
    path = Path(path)
    if path.is_dir():
        return _load_folder(path, device, dtype)
    if not path.exists():
        raise CheckpointError(f"{path}: there is no such file or folder")
    if path.suffix == ".safetensors":
        return _load_file(path, device, dtype)
    if is_llama2c(path):
        return _load_llama2c(path, device, dtype)
    if path.suffix in PICKLES or is_pickle(path):
        raise pickle_refusal(path)
    raise CheckpointError(
        f"{path}: is no kind of file that holds a model; wanted a folder, a .safetensors file or a llama2.c checkpoint"
    )


def _load_folder(folder: Path, device: torch.device | str, dtype: torch.dtype | None) -> Loaded:
    root = newest_set(folder)
    if not (root / CONFIG_FILE).exists():
        if any(folder.glob("step-*")):
            how = f"glassformer train --resume --out {shlex.quote(str(folder))}"
            raise CheckpointError(
                f"{folder}: holds a run that is not finished and no model yet; go on with it by: {how}"
            )
        raise CheckpointError(f"{folder}: has no {CONFIG_FILE}, which says what model it holds")
    source = TensorFiles(_weight_files(root))
    loaded = _build(read_table(root / CONFIG_FILE), source, root, device, dtype)
    for place in (root, folder):
        if has_tokenizer(place):
            return replace(loaded, tokenizer=Tokenizer.load(place))
    return loaded


def _weight_files(root: Path) -> Path | Mapping[str, Path]:
    """The file of the tensors, or the files that an index lists."""
    if (root / WEIGHTS).exists():
        return root / WEIGHTS
    if (root / INDEX).exists():
        return read_index(root / INDEX)
    for path in sorted(root.iterdir()):
        if path.suffix in PICKLES:
            raise pickle_refusal(path)
    raise CheckpointError(f"{root}: has neither {WEIGHTS} nor {INDEX}")


def _load_file(path: Path, device: torch.device | str, dtype: torch.dtype | None) -> Loaded:
    source = TensorFiles(path)
    if CONFIG_TEXT in source.metadata:
        table = parse_table(source.metadata[CONFIG_TEXT].encode(), f"{path}: its configuration")
    elif (path.parent / CONFIG_FILE).exists():
        table = read_table(path.parent / CONFIG_FILE)
    else:
        raise CheckpointError(f"{path}: has no configuration in it and no {CONFIG_FILE} beside it")
    return _build(table, source, path.parent, device, dtype)


def _load_llama2c(path: Path, device: torch.device | str, dtype: torch.dtype | None) -> Loaded:
    source = Llama2C(path)
    rows = list(expand(FAMILY_LLAMA.rows(source.config), {"layers": source.config.layers}))
    model = filled_model(source.config, rows, source, str(path), device, dtype)
    for name in (f"tok{source.config.vocab}.bin", "tokenizer.bin"):
        if path.with_name(name).exists():
            return Loaded(model, read_llama2c_tokenizer(path.with_name(name), source.config.vocab))
    return Loaded(model)


def _build(
    table: Mapping[str, object],
    source: TensorFiles,
    root: Path,
    device: torch.device | str,
    dtype: torch.dtype | None,
) -> Loaded:
    """A model from a config.json and its tensors."""
    names, where = source.shapes, str(root / CONFIG_FILE)
    if KIND in table:
        config, labels = read_own(table, len(names), where)
        model = empty_model(config, where)
        rows = [Row(name, name) for name, _ in model.named_parameters()]
        require_bijection(rows, names, str(root))
        fill_model(model, rows, source, str(root), device, dtype)
        return Loaded(model.eval(), labels=labels)
    twin = read_twin(table, names, where)
    if (root / GENERATION).exists():
        twin = replace(twin, generation=read_table(root / GENERATION))
    if isinstance(twin.config, EncoderConfig) and is_sentence_model(root):
        twin = replace(twin, config=replace(twin.config, head="sentence"))
    rows = as_in_file(twin.rows, names, twin.family.base)
    model = filled_model(twin.config, rows, source, str(root), device, dtype)
    left_out = tuple(row.theirs for row in rows if row.left_out and row.theirs in names)
    return Loaded(model, labels=twin.labels, twin=twin, left_out=left_out)


def filled_model(
    config: Config,
    rows: Sequence[Row],
    source: TensorSource,
    where: str,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
) -> Model:
    """A model with the tensors of a source, every one of them in its place."""
    require_bijection(rows, source.shapes, where)
    model = empty_model(config, where)
    fill_model(model, rows, source, where, device, dtype)
    return model.eval()


def empty_model(config: Config, where: str) -> Model:
    """A model that takes no memory yet."""
    try:
        return build(config, device="meta")
    except ConfigError as error:
        raise CheckpointError(f"{where}: {error}") from None
