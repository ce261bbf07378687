"""Writing of LoRA adapters in PEFT's format, with Hugging Face module names."""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from torch import Tensor

from glassformer.checkpoints.adapter import BASE, PREFIX
from glassformer.checkpoints.atomic_save import atomic_save, write_json
from glassformer.checkpoints.huggingface import known_hf_model
from glassformer.checkpoints.native import native_config
from glassformer.checkpoints.tensor_files import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    CONFIG_FILE,
    CONFIG_TEXT,
    write_tensors,
)
from glassformer.checkpoints.tensor_map import TensorMap, native_rows, to_hf
from glassformer.errors import CheckpointError
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.lora import LORA_A, LORA_B, LoRALinear, lora_layers, matches, merged
from glassformer.layers.model import Model
from glassformer.safe_read import read_table
from glassformer.text.tokenizer import Tokenizer


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


def _written_rows(model: Model, base: Path) -> list[TensorMap]:
    """The table of tensors in the family of the base model."""
    path = base / CONFIG_FILE
    found = known_hf_model(model.config, read_table(path).get("model_type") if path.exists() else None)
    return native_rows(merged(model)) if found is None else found.written_rows


def _task_type(model: Model) -> str | None:
    """PEFT's word for what a model does."""
    if isinstance(model, CausalLM):
        return "CAUSAL_LM"
    if isinstance(model, EncoderDecoder):
        return "SEQ_2_SEQ_LM"
    head = vars(model.config).get("head")
    kinds = {"classifier": "SEQ_CLS", "span": "QUESTION_ANS"} | dict.fromkeys(
        ("hidden", "pooled"), "FEATURE_EXTRACTION"
    )
    return kinds.get(str(head))


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
