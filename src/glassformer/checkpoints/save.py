"""`gf.save`: write a model to a folder, in the format of its Hugging Face family or in the native one."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from torch import Tensor

from glassformer.checkpoints.atomic_save import JOURNAL, atomic_save, write_json
from glassformer.checkpoints.hf_config import HARMLESS
from glassformer.checkpoints.huggingface import HFModel, class_count, config_table, find_hf_model
from glassformer.checkpoints.native import native_config, read_native
from glassformer.checkpoints.preprocessor import PREPROCESSOR, has_pictures, preprocessor_table
from glassformer.checkpoints.run_checkpoints import holds_run
from glassformer.checkpoints.sentence import MODULES, write_sentence_model
from glassformer.checkpoints.tensor_files import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    CONFIG_FILE,
    CONFIG_TEXT,
    GENERATION,
    INDEX,
    NUMBERS_SUFFIX,
    WEIGHTS,
    write_tensors,
)
from glassformer.checkpoints.tensor_map import TensorMap, native_rows, to_hf
from glassformer.errors import CheckpointError, PathError
from glassformer.layers.config import Config
from glassformer.layers.lora import merged
from glassformer.layers.model import Model
from glassformer.safe_read import parse_table
from glassformer.text.model_files import TEMPLATE_FILE
from glassformer.text.tokenizer import Tokenizer

Format = Literal["auto", "hf", "native"]
SHARD_BYTES = 5_000_000_000
STALE_NAMES = (INDEX, GENERATION, PREPROCESSOR, MODULES, ADAPTER_CONFIG, ADAPTER_WEIGHTS)
STALE = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors|" + "|".join(map(re.escape, STALE_NAMES)))
TOKENIZER_FILES = ("tokenizer.json", TEMPLATE_FILE)  # that a new tokenizer replaces
MODEL_FILES = (CONFIG_FILE, "*.safetensors", "tokenizer.json", "*.spm", JOURNAL)


def save(
    model: Model,
    folder: Path | str,
    tokenizer: Tokenizer | None = None,
    labels: Sequence[str] | None = None,
    format: Format = "auto",
    like: HFModel | None = None,
    shard_bytes: int = SHARD_BYTES,
    in_run: bool = False,
) -> None:
    """Save a model to a folder atomically: after a crash at any moment, the folder holds the old or the new model.

    The format "hf" is what `transformers` opens, "native" keeps every option, and "auto" is "hf" if the model has a
    family there. Files of more than `shard_bytes` are split. Other files in the folder stay, and so does a tokenizer
    if none is given. `like` is the `hf_model` of a loaded model, whose family and other fields are kept. The folder of
    a training run is refused, except to the run itself (`in_run`). LoRA layers are saved merged; `save_adapter` saves
    them apart.
    """
    if not isinstance(model, Model):
        what = f"model is of the type {type(model).__name__}, wanted a model"
        raise CheckpointError(f"{what}; what gf.load returns is saved by its own method: .save(folder)")
    _require_free(folder, in_run)
    model = merged(model)
    names = None if labels is None else tuple(labels)
    found = _hf_model(model.config, names, format, like)
    if found is None:
        table, rows, where = native_config(model.config, names), native_rows(model), f"{folder}: the new config.json"
        read_native(parse_table(json.dumps(table).encode(), where), len(rows), where)
    else:
        table, rows = _more_fields(config_table(found), like, tokenizer, model), found.written_rows

    def write(scratch: Path) -> None:
        _write_shards(scratch, model, table, rows, shard_bytes)
        write_json(scratch / CONFIG_FILE, table)
        if found is not None:
            _write_beside(scratch, found, table)
        if like is not None and like.generation is not None:
            write_json(scratch / GENERATION, like.generation)
        if tokenizer is not None:
            reads_pairs = vars(model.config).get("head") == "span" and vars(model.config)["token_types"] > 1
            (tokenizer.with_use(token_types=True) if reads_pairs else tokenizer).save(scratch)

    def is_stale(name: str) -> bool:
        return STALE.fullmatch(name) is not None or (tokenizer is not None and name in TOKENIZER_FILES)

    atomic_save(Path(folder), write, is_stale)


def _write_beside(folder: Path, found: HFModel, table: Mapping[str, object]) -> None:
    """Write what other libraries read beside the config.json: how pictures are read, how text is generated."""
    if has_pictures(found.config):
        write_json(folder / PREPROCESSOR, preprocessor_table(found.family.model_type, found.config))
    elif found.head in ("", "lm"):  # it generates text
        ids = {name: value for name, value in table.items() if name.endswith("token_id") and value is not None}
        write_json(folder / GENERATION, {"_from_model_config": True, **ids})
    if found.head == "sentence":
        write_sentence_model(folder, vars(found.config)["dim"])


def _require_free(folder: Path | str, in_run: bool) -> None:
    if not str(folder):
        raise PathError("the folder to save to is empty: name one, or . for the current folder")
    if not in_run and holds_run(Path(folder)):
        raise PathError(f"{folder}: holds a training run, whose model would be lost: name another folder")


def model_files(folder: Path) -> list[str]:
    """The files of a model in a folder, or of one whose writer was interrupted."""
    found = (path.name for pattern in MODEL_FILES for path in sorted(folder.glob(pattern)))
    return [name for name in found if not name.endswith(NUMBERS_SUFFIX)]


def _hf_model(config: Config, labels: tuple[str, ...] | None, format: Format, like: HFModel | None) -> HFModel | None:
    if format not in ("auto", "hf", "native"):
        raise CheckpointError(f"format is {format!r}, wanted auto, hf or native")
    classes = class_count(config)
    if labels is not None and classes and len(labels) != classes:
        raise CheckpointError(f"{len(labels)} labels are given, but the model has {classes} classes")
    if format == "native":
        return None
    try:
        return find_hf_model(config, labels, None if like is None else like.family.model_type)
    except CheckpointError as error:
        if format == "hf":
            raise CheckpointError(f'{error}; format="native" keeps all of it') from None
        return None


def _more_fields(
    table: dict[str, object], like: HFModel | None, tokenizer: Tokenizer | None, model: Model
) -> dict[str, object]:
    """Fields that other libraries read beyond the model: its dtype and the ids of special tokens."""
    fields = {} if like is None else like.fields or {}
    ids: dict[str, object] = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    ids |= {name: value for name, value in fields.items() if name in HARMLESS and name not in table}
    if tokenizer is not None:
        ends = sorted(tokenizer.ends)
        ids |= {"bos_token_id": tokenizer.bos, "pad_token_id": tokenizer.pad}
        ids["eos_token_id"] = ends if len(ends) > 1 else tokenizer.eos if not ends else ends[0]
    if table.get("is_encoder_decoder"):
        ids["pad_token_id"] = ids["pad_token_id"] or 0  # transformers requires one
        first = ids["pad_token_id"] if ids["bos_token_id"] is None else ids["bos_token_id"]
        known = fields.get("decoder_start_token_id", first)
        ids["decoder_start_token_id"] = known if tokenizer is None else tokenizer.decoder_start
        ids.setdefault("forced_eos_token_id", None)
    ids["torch_dtype"] = str(next(model.parameters()).dtype).removeprefix("torch.")
    return {**table, **{name: ids[name] for name in sorted(ids) if name not in table}}


def _write_shards(
    folder: Path, model: Model, table: Mapping[str, object], rows: Sequence[TensorMap], shard_bytes: int
) -> None:
    """Write one file, or several and their index; only one of them is in memory a second time."""
    state = {name: parameter.detach() for name, parameter in model.named_parameters()}
    shards = list(_shards(rows, state, shard_bytes))
    metadata = {CONFIG_TEXT: json.dumps(table)} if len(shards) == 1 else {}
    index: dict[str, str] = {}
    total = 0
    for number, shard in enumerate(shards, 1):
        name = WEIGHTS if len(shards) == 1 else f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        tensors = {key: tensor.cpu() for key, tensor in to_hf(shard, state).items()}
        write_tensors(folder / name, tensors, metadata)
        index |= dict.fromkeys(tensors, name)
        total += sum(tensor.nbytes for tensor in tensors.values())
    if len(shards) > 1:
        write_json(folder / INDEX, {"metadata": {"total_size": total}, "weight_map": index})


def _shards(rows: Sequence[TensorMap], state: Mapping[str, Tensor], shard_bytes: int) -> Iterator[list[TensorMap]]:
    """The rows of each file: tensors that together stay below a size, or a single larger one."""
    shard: list[TensorMap] = []
    size = 0
    for row in rows:
        if row.native:
            more = state[row.native].nbytes
            if shard and size + more > shard_bytes:
                yield shard
                shard, size = [], 0
            shard.append(row)
            size += more
    yield shard
