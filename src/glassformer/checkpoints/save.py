"""`gf.save`: a model into a folder, for Hugging Face where a family allows it and else in our own layout."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import Tensor

from glassformer.checkpoints.atomic_save import JOURNAL, atomic_save
from glassformer.checkpoints.hf_config import HARMLESS
from glassformer.checkpoints.huggingface import HFModel, config_table, find_hf_model
from glassformer.checkpoints.load import CONFIG_FILE, CONFIG_TEXT, GENERATION, INDEX, WEIGHTS
from glassformer.checkpoints.native import native_config, read_native
from glassformer.checkpoints.sentence import MODULES, write_sentence_model
from glassformer.checkpoints.tensor_files import CHECKSUMS, NUMBERS_SUFFIX, checksum, write_tensors
from glassformer.checkpoints.tensor_map import TensorMap, to_theirs
from glassformer.errors import CheckpointError
from glassformer.layers.config import Config
from glassformer.layers.model import Model
from glassformer.text.tokenizer import Tokenizer

Format = Literal["auto", "hf", "ours"]
SHARD_BYTES = 5_000_000_000
STALE = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors|" + "|".join(map(re.escape, (INDEX, GENERATION, MODULES))))
OWN_FILES = (CONFIG_FILE, "*.safetensors", "tokenizer.json", "*.spm", JOURNAL)


@dataclass(frozen=True)
class _Layout:
    """What is to be written: the config.json and a table of tensors."""

    config: Config
    table: dict[str, object]
    rows: Sequence[TensorMap]


def save(
    model: Model,
    folder: Path | str,
    tokenizer: Tokenizer | None = None,
    labels: Sequence[str] | None = None,
    format: Format = "auto",
    like: HFModel | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Write a model so that a crash at any moment leaves the old one or the new one.

    "hf" is what `transformers` opens, "ours" keeps every option, and "auto" is the first where the
    model has a family there. Files of more than `shard_bytes` are split. Other files in the folder
    stay, a tokenizer too if none is given. `like` is the twin of a loaded model, to be written as it came.
    """
    config: Config = model.config
    names = None if labels is None else tuple(labels)
    twin = _twin(config, names, format, like)
    if twin is None:
        rows = [TensorMap(name, name) for name, _ in model.named_parameters()]
        layout = _Layout(config, native_config(config, names), rows)
        read_native(json.loads(json.dumps(layout.table)), len(rows), f"{folder}: what would be written")
    else:
        table = _more_fields(config_table(twin), like, tokenizer, model)
        layout = _Layout(config, table, twin.written_rows)

    def write(scratch: Path) -> None:
        _write_tensors(scratch, model, layout, shard_bytes)
        _write_json(scratch / CONFIG_FILE, layout.table)
        if twin is not None:
            _write_companions(scratch, layout)
        if like is not None and like.generation is not None:
            _write_json(scratch / GENERATION, like.generation)
        if tokenizer is not None:
            tokenizer.save(scratch)

    def is_stale(name: str) -> bool:
        return STALE.fullmatch(name) is not None or (tokenizer is not None and name == "tokenizer.json")

    atomic_save(Path(folder), write, is_stale)


def model_files(folder: Path) -> list[str]:
    """What a folder holds of a model, or of one that a writer died on the way to."""
    found = (path.name for pattern in OWN_FILES for path in sorted(folder.glob(pattern)))
    return [name for name in found if not name.endswith(NUMBERS_SUFFIX)]


def _twin(config: Config, labels: tuple[str, ...] | None, format: Format, like: HFModel | None) -> HFModel | None:
    if format not in ("auto", "hf", "ours"):
        raise CheckpointError(f"format is {format!r}, wanted auto, hf or ours")
    classes = getattr(config, "classes", None) if getattr(config, "head", "") == "classifier" else None
    if labels is not None and classes is not None and len(labels) != classes:
        raise CheckpointError(f"{len(labels)} labels are given, but the model has {classes} classes")
    if format == "ours":
        return None
    try:
        return find_hf_model(config, labels, None if like is None else like.family.model_type)
    except CheckpointError as error:
        if format == "hf":
            raise CheckpointError(f'{error}; format="ours" keeps it whole') from None
        return None


def _more_fields(
    table: dict[str, object], like: HFModel | None, tokenizer: Tokenizer | None, model: Model
) -> dict[str, object]:
    """What others want to know beyond the model: its number type and the ids of special tokens."""
    fields = {} if like is None else like.fields or {}
    ids: dict[str, object] = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    ids |= {name: value for name, value in fields.items() if name in HARMLESS and name not in table}
    if tokenizer is not None:
        ends = sorted(tokenizer.ends)
        ids |= {"bos_token_id": tokenizer.bos, "pad_token_id": tokenizer.pad}
        ids["eos_token_id"] = ends if len(ends) > 1 else tokenizer.eos if not ends else ends[0]
    if table.get("is_encoder_decoder"):
        ids["pad_token_id"] = ids["pad_token_id"] or 0  # they will not do without
        first = ids["pad_token_id"] if ids["bos_token_id"] is None else ids["bos_token_id"]
        known = fields.get("decoder_start_token_id", first)
        ids["decoder_start_token_id"] = known if tokenizer is None else tokenizer.decoder_start
        ids.setdefault("forced_eos_token_id", None)
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    ids["torch_dtype"] = dtype
    return {**table, **{name: ids[name] for name in sorted(ids) if name not in table}}


def _write_companions(folder: Path, layout: _Layout) -> None:
    """Files that their libraries look for beside the model."""
    kinds = layout.table["architectures"]
    if isinstance(kinds, list) and str(kinds[0]).endswith(("LMHeadModel", "CausalLM", "MTModel", "Generation")):
        ids = {name: value for name, value in layout.table.items() if name.endswith("token_id") and value is not None}
        _write_json(folder / GENERATION, {"_from_model_config": True, **ids})
    if getattr(layout.config, "head", "") == "sentence":
        write_sentence_model(folder, getattr(layout.config, "dim", 0))


def _write_json(path: Path, table: Mapping[str, object]) -> None:
    path.write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _write_tensors(folder: Path, model: Model, layout: _Layout, shard_bytes: int) -> None:
    """One file, or several and an index of them; no more than one of them is in memory a second time."""
    state = {name: parameter.detach() for name, parameter in model.named_parameters()}
    shards = list(_shards(layout.rows, state, shard_bytes))
    metadata = {"format": "pt"}
    if len(shards) == 1:
        metadata[CONFIG_TEXT] = json.dumps(layout.table)
    index: dict[str, str] = {}
    total = 0
    for number, rows in enumerate(shards, 1):
        name = WEIGHTS if len(shards) == 1 else f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        tensors = {key: tensor.cpu() for key, tensor in to_theirs(rows, state).items()}
        sums = {key: checksum(tensor) for key, tensor in tensors.items()}
        write_tensors(folder / name, tensors, {**metadata, CHECKSUMS: json.dumps(sums)})
        _sort_metadata(folder / name)
        (folder / name).chmod(0o644)
        index |= dict.fromkeys(tensors, name)
        total += sum(map(_size_of, tensors.values()))
    if len(shards) > 1:
        _write_json(folder / INDEX, {"metadata": {"total_size": total}, "weight_map": index})


def _shards(rows: Sequence[TensorMap], state: Mapping[str, Tensor], shard_bytes: int) -> Iterator[list[TensorMap]]:
    """The rows in lists whose tensors together stay below a size, or are one tensor."""
    shard: list[TensorMap] = []
    size = 0
    for row in rows:
        if row.names:
            more = sum(_size_of(state[name]) for name in row.names)
            if shard and size + more > shard_bytes:
                yield shard
                shard, size = [], 0
            shard.append(row)
            size += more
    yield shard


def _size_of(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _sort_metadata(path: Path) -> None:
    """Put a file's notes in order, so that equal models are equal files: they come out of the library in any order."""
    with path.open("r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        words = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        if len(words) <= size:  # padded with blanks, as the format allows
            file.seek(8)
            file.write(words.ljust(size))
