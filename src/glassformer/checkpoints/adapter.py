"""Reading of LoRA adapters in PEFT's format: adapter_config.json and adapter_model.safetensors."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from glassformer.checkpoints.tensor_files import ADAPTER_CONFIG, ADAPTER_WEIGHTS, TensorFiles
from glassformer.checkpoints.tensor_map import TensorMap
from glassformer.errors import CheckpointError, PathError
from glassformer.layers.lora import LORA_A, LORA_B, merged_weight
from glassformer.layers.model import Model
from glassformer.models.causal_classifier import weights_for
from glassformer.safe_read import pickle_refusal, read_table

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


def adapter_tensors(folder: Path) -> TensorFiles:
    """The tensors of the adapter in a folder; a pickle is refused."""
    if not (folder / ADAPTER_WEIGHTS).exists() and (folder / "adapter_model.bin").exists():
        raise pickle_refusal(folder / "adapter_model.bin")
    return TensorFiles(folder / ADAPTER_WEIGHTS)


class AdapterTensors:
    """The tensors of an adapter under the native names of a model.

    `rows` say what the model's tensors are called, with or without the prefix `base` of a Hugging Face family.
    """

    def __init__(self, source: TensorFiles, where: str, rows: Iterable[TensorMap], base: str) -> None:
        self.source, self.where = source, where
        self._lora: dict[str, dict[str, str]] = {}
        self._full: dict[str, TensorMap] = {}
        known = {name: row for row in rows if row.native for name in (row.hf, row.hf.removeprefix(base))}
        for stored in source.shapes:
            self._place(stored, known)

    def _place(self, stored: str, known: Mapping[str, TensorMap]) -> None:
        name = stored.removeprefix(PREFIX)
        for part in (LORA_A, LORA_B):
            if name.endswith(f".{part}.weight"):
                row = known.get(f"{name.removesuffix(f'.{part}.weight')}.weight")
                if row is not None:
                    self._lora.setdefault(row.native, {})[part] = stored
                    return
        if name not in known:
            raise CheckpointError(f"{self.where}: holds {stored}, which this model has no place for")
        self._full[stored] = known[name]

    def pairs(self) -> list[tuple[str, Tensor, Tensor]]:
        """The native name of each weight with an update, and its matrices A and B."""
        for native, parts in self._lora.items():
            if missing := {LORA_A, LORA_B} - parts.keys():
                raise CheckpointError(f"{self.where}: has no {missing.pop()} for {native}")
        return [(n, self.source.read(p[LORA_A]).T, self.source.read(p[LORA_B]).T) for n, p in self._lora.items()]

    def full(self, sizes: Mapping[str, torch.Size]) -> list[tuple[str, Tensor]]:
        """The parameters that were trained in full, by native name; `sizes` are those of the model."""
        found: list[tuple[str, Tensor]] = []
        for stored, row in self._full.items():
            value = self.source.read(stored)
            value = value[0] if row.unsqueezed else value
            value = value.T if row.transposed else value
            if value.shape != sizes[row.native]:
                shapes = f"has shape {list(value.shape)}, but {row.native} is {list(sizes[row.native])}"
                raise CheckpointError(f"{self.where}: {stored} {shapes}: the base model has another head")
            found.append((row.native, value))
        return found


@torch.no_grad()
def merge_updates(model: Model, updates: AdapterTensors, config: AdapterConfig) -> None:
    """Merge the updates of an adapter into the weights of its base model."""
    parameters = dict(model.named_parameters())
    for native, value in updates.full({name: value.shape for name, value in parameters.items()}):
        parameters[native].copy_(value)
    for native, a, b in updates.pairs():
        weight = parameters[native]
        if a.shape[0] != weight.shape[0] or b.shape[1] != weight.shape[1] or a.shape[1] != b.shape[0]:
            shapes = f"{list(a.shape)} and {list(b.shape)} do not make an update of {list(weight.shape)}"
            raise CheckpointError(f"{updates.where}: the matrices of {native} do not fit: {shapes}")
        weight.copy_(merged_weight(weight, a.to(weight), b.to(weight), config.alpha_for(a.shape[1])))


def fill_from_base(model: Model, base: Model, updates: AdapterTensors) -> None:
    """Fill a model on the meta device from a base of another head, and from what the adapter brings in full."""
    like, sizes = next(base.parameters()), {name: value.shape for name, value in model.named_parameters()}
    known = weights_for(model, base) | {name: value.to(like) for name, value in updates.full(sizes)}
    for name, size in sizes.items():
        if name not in known or known[name].shape != size:
            raise CheckpointError(f"{updates.where}: neither it nor its base model has {name}")
        module, _, leaf = name.rpartition(".")
        model.get_submodule(module).register_parameter(leaf, nn.Parameter(known[name].detach().clone()))
