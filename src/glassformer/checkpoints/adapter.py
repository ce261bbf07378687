"""LoRA adapters in PEFT's format: adapter_config.json and adapter_model.safetensors, with Hugging Face module names."""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from glassformer.checkpoints.atomic_save import atomic_save, write_json
from glassformer.checkpoints.huggingface import HFModel, find_hf_model
from glassformer.checkpoints.native import native_config, read_native
from glassformer.checkpoints.tensor_files import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    CONFIG_FILE,
    CONFIG_TEXT,
    TensorFiles,
    write_tensors,
)
from glassformer.checkpoints.tensor_map import TensorMap, native_rows, to_hf
from glassformer.errors import CheckpointError, PathError
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.lora import LORA_A, LORA_B, LoRALinear, lora_layers, matches, merged, merged_weight
from glassformer.layers.model import Model
from glassformer.models.registry import build
from glassformer.safe_read import parse_table, pickle_refusal, read_table
from glassformer.text.tokenizer import Tokenizer

BASE = "base_model_name_or_path"
PREFIX = "base_model.model."  # of every tensor: PEFT wraps the model twice
# Initializations that leave the base model as it is; others move a part of its weights into the adapter.
SAFE_INITIALIZATIONS = (True, False, None, "gaussian", "eva", "orthogonal")
# Fields that say how an adapter was trained, or what its tensors show as well.
HARMLESS_FIELDS = {
    "auto_mapping", "bias", "corda_config", "ensure_weight_tying", "eva_config", "exclude_modules", "fan_in_fan_out",
    "inference_mode", "layers_pattern", "layers_to_transform", "lora_dropout", "megatron_core", "modules_to_save",
    "peft_version", "qalora_group_size", "rank_pattern", "revision", "runtime_config", "target_modules", "task_type",
}  # fmt: skip


@dataclass(frozen=True)
class AdapterConfig:
    """What is needed of an adapter_config.json: the base model, and the factor before the product of each pair."""

    base: str
    alpha: float
    rank_stabilized: bool

    def alpha_for(self, rank: int) -> float:
        """The α of a layer; rank-stabilized LoRA divides by the root of the rank instead of the rank."""
        return self.alpha * math.sqrt(rank) if self.rank_stabilized else self.alpha


def has_adapter(folder: Path) -> bool:
    """Whether a folder holds a LoRA adapter."""
    return (folder / ADAPTER_CONFIG).exists()


def save_adapter(
    model: Model,
    folder: Path | str,
    base: Path | str,
    modules_to_save: str = "",
    tokenizer: Tokenizer | None = None,
    labels: Sequence[str] | None = None,
) -> None:
    """Save the LoRA matrices of a model for PEFT, with the parameters that match `modules_to_save`.

    `base` is the folder of the model without them, which the adapter's configuration names. The matrices have the
    module names of its Hugging Face family, or native names if it has none.
    """
    table, tensors = adapter_files(model, base, modules_to_save)
    names = None if labels is None else tuple(labels)
    metadata = {CONFIG_TEXT: json.dumps(native_config(model.config, names))}

    def write(scratch: Path) -> None:
        write_tensors(scratch / ADAPTER_WEIGHTS, tensors, metadata)
        write_json(scratch / ADAPTER_CONFIG, table)
        if tokenizer is not None:
            tokenizer.save(scratch)

    atomic_save(Path(folder), write, lambda name: tokenizer is not None and name == "tokenizer.json")


def adapter_files(model: Model, base: Path | str, modules_to_save: str) -> tuple[dict[str, object], dict[str, Tensor]]:
    """The adapter_config.json and the tensors of a model's LoRA layers; raises where PEFT has no way to say it."""
    layers = lora_layers(model)
    if not layers:
        raise CheckpointError("the model has no LoRA layers, so there is no adapter to save")
    rows = _written_rows(model, Path(base))
    by_native = {row.native: row for row in rows if row.native}
    weights = {row.hf.removesuffix(".weight"): row for row in rows if row.hf.endswith(".weight")}
    chosen = {by_native[f"{name}.weight"].hf.removesuffix(".weight"): layer for name, layer in layers.items()}
    tensors: dict[str, Tensor] = {}
    for name, layer in chosen.items():
        for part, value in ((LORA_A, layer.lora_A), (LORA_B, layer.lora_B)):
            tensors[f"{PREFIX}{name}.{part}.weight"] = value.detach().T.contiguous().cpu()
    full = [row for row in rows if row.native and matches(row.native, modules_to_save)]
    if tied := [row for row in rows if row.same_as in {each.hf for each in full} and not row.native]:
        why = f"{tied[0].same_as} is tied to {tied[0].hf}, which PEFT would leave as it was"
        raise CheckpointError(f"{why}; save the merged model instead")
    state = {name: value.detach().cpu() for name, value in model.named_parameters()}
    tensors |= {PREFIX + name: value for name, value in to_hf(full, state).items()}
    first = next(iter(layers.values()))
    table = {
        "peft_type": "LORA",
        "task_type": _task_type(model),
        BASE: str(base),
        "r": first.lora_A.shape[1],
        "lora_alpha": first.alpha,
        "lora_dropout": first.dropout,
        "target_modules": _targets(chosen, weights.keys()),
        "modules_to_save": _topmost({row.hf for row in full}, {row.hf for row in rows if row.native}) or None,
        "fan_in_fan_out": any(not weights[name].transposed for name in chosen),
        "bias": "none",
        "inference_mode": True,
    }
    return table, tensors


def read_adapter_config(folder: Path) -> AdapterConfig:
    """The configuration of the adapter in a folder; kinds of adapters that are not plain LoRA are refused by name."""
    path = folder / ADAPTER_CONFIG
    table = read_table(path)
    if table.get("peft_type") != "LORA":
        raise CheckpointError(f"{path}: peft_type is {repr(table.get('peft_type'))[:80]}, wanted 'LORA'")
    base, alpha, stabilized = table.get(BASE), table.get("lora_alpha"), table.get("use_rslora", False)
    if not isinstance(alpha, int | float) or isinstance(alpha, bool) or not alpha > 0:
        raise CheckpointError(f"{path}: lora_alpha is {repr(alpha)[:80]}, wanted a number above 0")
    if table.get("init_lora_weights") not in SAFE_INITIALIZATIONS:
        drawn = repr(table["init_lora_weights"])[:80]
        why = "which changes the base model as well; convert it with PEFT"
        raise CheckpointError(f"{path}: init_lora_weights is {drawn}, {why}")
    known = {"peft_type", BASE, "r", "lora_alpha", "use_rslora", "init_lora_weights", *HARMLESS_FIELDS}
    for name, value in table.items():
        if name not in known and value:
            raise CheckpointError(f"{path}: {name[:80]} is {repr(value)[:80]}, which is not plain LoRA")
    return AdapterConfig(base if isinstance(base, str) else "", float(alpha), bool(stabilized))


def base_folder(folder: Path) -> Path:
    """The folder of the base model that an adapter names, as it is named or beside the adapter."""
    base = read_adapter_config(folder).base
    for candidate in (Path(base), folder / base):
        if base and candidate.is_dir():
            return candidate
    how = f"load it with its base: gf.load(BASE, adapter={str(folder)!r})"
    raise PathError(f"{folder}: is an adapter of {base[:200]!r}, which is not a folder here; {how}")


@torch.no_grad()
def apply_adapter(
    model: Model, hf_model: HFModel | None, folder: Path
) -> tuple[Model, HFModel | None, tuple[str, ...] | None]:
    """A base model with an adapter merged into its weights, and the labels if the adapter brings a classifier.

    The model is changed in place unless the adapter brings another head.
    """
    config, where = read_adapter_config(folder), str(folder / ADAPTER_WEIGHTS)
    if not (folder / ADAPTER_WEIGHTS).exists() and (folder / "adapter_model.bin").exists():
        raise pickle_refusal(folder / "adapter_model.bin")
    source, labels = TensorFiles(folder / ADAPTER_WEIGHTS), None
    if CONFIG_TEXT in source.metadata:
        about = f"{where}: its configuration"
        table = parse_table(source.metadata[CONFIG_TEXT].encode(), about)
        wanted, labels = read_native(table, len(source.shapes) + len(list(model.parameters())), about)
        if wanted != model.config:
            adopted = build(wanted, device="meta")
            hf_model = None if hf_model is None else replace(hf_model, config=wanted, labels=labels)
            model = _adopted(model, adopted, _Names(adopted, hf_model, source, where))
    names = _Names(model, hf_model, source, where)
    parameters = dict(model.named_parameters())
    for native, value in names.full():
        parameters[native].copy_(value)
    for native, a, b in names.pairs():
        weight = parameters[native]
        if a.shape[0] != weight.shape[0] or b.shape[1] != weight.shape[1] or a.shape[1] != b.shape[0]:
            shapes = f"{list(a.shape)} and {list(b.shape)} do not make an update of {list(weight.shape)}"
            raise CheckpointError(f"{where}: the matrices of {native} do not fit: {shapes}")
        weight.copy_(merged_weight(weight, a.to(weight), b.to(weight), config.alpha_for(a.shape[1])))
    return model.eval(), hf_model, labels


class _Names:
    """The tensors of an adapter under the native names of a model."""

    def __init__(self, model: Model, hf_model: HFModel | None, source: TensorFiles, where: str) -> None:
        self.source, self.where = source, where
        self._sizes = {name: value.shape for name, value in model.named_parameters()}
        hf_model = hf_model or _family(model)
        base = "" if hf_model is None else hf_model.family.base
        rows = [*native_rows(model), *([] if hf_model is None else hf_model.rows)]
        self._rows = {name: row for row in rows if row.native for name in (row.hf, row.hf.removeprefix(base))}
        self._lora: dict[str, dict[str, str]] = {}
        self._full: dict[str, TensorMap] = {}
        for stored in source.shapes:
            self._place(stored)

    def _place(self, stored: str) -> None:
        name = stored.removeprefix(PREFIX)
        for part in (LORA_A, LORA_B):
            if name.endswith(f".{part}.weight"):
                row = self._rows.get(f"{name.removesuffix(f'.{part}.weight')}.weight")
                if row is not None:
                    self._lora.setdefault(row.native, {})[part] = stored
                    return
        if name not in self._rows:
            raise CheckpointError(f"{self.where}: holds {stored}, which this model has no place for")
        self._full[stored] = self._rows[name]

    def pairs(self) -> list[tuple[str, Tensor, Tensor]]:
        """The native name of each weight with an update, and its matrices A and B."""
        for native, parts in self._lora.items():
            if missing := {LORA_A, LORA_B} - parts.keys():
                raise CheckpointError(f"{self.where}: has no {missing.pop()} for {native}")
        return [(n, self.source.read(p[LORA_A]).T, self.source.read(p[LORA_B]).T) for n, p in self._lora.items()]

    def full(self) -> list[tuple[str, Tensor]]:
        """The parameters that were trained in full, by native name."""
        found: list[tuple[str, Tensor]] = []
        for stored, row in self._full.items():
            value = self.source.read(stored)
            value = value[0] if row.unsqueezed else value
            value = value.T if row.transposed else value
            if value.shape != self._sizes[row.native]:
                shapes = f"has shape {list(value.shape)}, but {row.native} is {list(self._sizes[row.native])}"
                raise CheckpointError(f"{self.where}: {stored} {shapes}: the base model has another head")
            found.append((row.native, value))
        return found


def _adopted(base: Model, model: Model, names: _Names) -> Model:
    """A model on the meta device, filled by a base of another head and by what the adapter brings in full."""
    like = next(base.parameters())
    known = dict(base.named_parameters()) | {name: value.to(like) for name, value in names.full()}
    for name, parameter in list(model.named_parameters()):
        if name not in known or known[name].shape != parameter.shape:
            raise CheckpointError(f"{names.where}: neither it nor its base model has {name}")
        module, _, leaf = name.rpartition(".")
        model.get_submodule(module).register_parameter(leaf, nn.Parameter(known[name].detach().clone()))
    return model


def _family(model: Model, first: object = None) -> HFModel | None:
    """The Hugging Face family of a model, or None if it has none."""
    try:
        return find_hf_model(model.config, None, first)
    except CheckpointError:
        return None


def _written_rows(model: Model, base: Path) -> list[TensorMap]:
    """The table of tensors in the family of the base model."""
    path = base / CONFIG_FILE
    found = _family(model, read_table(path).get("model_type") if path.exists() else None)
    return native_rows(merged(model)) if found is None else found.written_rows


def _task_type(model: Model) -> str | None:
    """PEFT's word for what a model does."""
    if isinstance(model, CausalLM):
        return "CAUSAL_LM"
    if isinstance(model, EncoderDecoder):
        return "SEQ_2_SEQ_LM"
    head = vars(model.config).get("head")
    return {"classifier": "SEQ_CLS", "hidden": "FEATURE_EXTRACTION", "pooled": "FEATURE_EXTRACTION"}.get(str(head))


def _targets(chosen: Mapping[str, LoRALinear], modules: Collection[str]) -> list[str]:
    """Short names that select exactly the chosen modules, such as attn.c_attn; else their full names."""
    short: set[str] = set()
    for name in chosen:
        parts = name.split(".")
        last = max((at for at, part in enumerate(parts) if part.isdigit()), default=-1)
        short.add(".".join(parts[last + 1 :]))
    selected = {name for name in modules for each in short if name == each or name.endswith(f".{each}")}
    return sorted(short if selected == chosen.keys() else chosen)


def _topmost(full: Collection[str], names: Collection[str]) -> list[str]:
    """The highest modules all of whose parameters are among these."""
    found: set[str] = set()
    for name in full:
        parts = name.split(".")
        above = [".".join(parts[:size]) for size in range(1, len(parts))]
        whole = (each for each in above if all(other in full for other in names if other.startswith(f"{each}.")))
        found.add(next(whole))
    return sorted(found)
