"""The native format: config.json holds the architecture and its configuration, and tensors have parameter names."""

import dataclasses
from collections.abc import Mapping

import msgspec

from glassformer.checkpoints.hf_config import require_sane
from glassformer.errors import CheckpointError
from glassformer.layers.config import Config
from glassformer.layers.rotary import ROPE_SCALINGS, RopeScaling
from glassformer.models.registry import ARCHITECTURES, architecture_of, config_type

KIND = "glassformer"  # the field with the name of the architecture
# Fields of a configuration that were renamed: the name in older files, and the name now.
RENAMED_FIELDS = {
    "hidden": "ffn_dim",
    "tied": "tie_embeddings",
    "order": "norm_first",
    "first_place": "position_offset",
    "scaled": "scale_embeddings",
    "base": "rope_theta",
    "scaling": "rope_scaling",
    "cap": "logit_softcap",
    "segments": "token_types",
    "shared": "share_layers",
}
RENAMED_ELSEWHERE = {"mlp": {"hidden": "hidden_dims"}, "rnn": {"hidden": "hidden_dim"}}


def native_config(config: Config, labels: tuple[str, ...] | None) -> dict[str, object]:
    """The native config.json of a configuration."""
    table: dict[str, object] = {KIND: architecture_of(config), **dataclasses.asdict(config)}
    scaling = vars(config).get("rope_scaling")
    if type(scaling) is RopeScaling:  # the one that does not scale
        table["rope_scaling"] = None
    elif scaling is not None:
        kinds = {scaling_type: name for name, scaling_type in ROPE_SCALINGS.items()}
        name = type(scaling).__name__
        table["rope_scaling"] = {"kind": kinds.get(type(scaling), name), **dataclasses.asdict(scaling)}
    return table if labels is None else {**table, "labels": list(labels)}


def read_native(table: Mapping[str, object], tensors: int, where: str) -> tuple[Config, tuple[str, ...] | None]:
    """The configuration and labels in a native config.json."""
    kinds = {name: config_type(model) for name, model in ARCHITECTURES.items()}
    kind = table[KIND]
    if not isinstance(kind, str) or kind not in kinds:
        older = {model.__name__: name for name, model in ARCHITECTURES.items()}
        raise CheckpointError(f"{where}: {KIND} is {repr(kind)[:80]}, {_wanted(kind, ARCHITECTURES, older)}")
    values = {name: value for name, value in table.items() if name not in (KIND, "labels")}
    known = {field.name for field in dataclasses.fields(kinds[kind])}
    if unknown := sorted(values.keys() - known):
        renamed = RENAMED_FIELDS | RENAMED_ELSEWHERE.get(kind, {})
        older = [name for name in unknown if renamed.get(name) in known]
        if len(older) > 1:
            names = ", ".join(f"{name!r} is now {renamed[name]!r}" for name in older)
            raise CheckpointError(f"{where}: {kind} has other names for these fields: {names}")
        which = f"{older[0]!r}: it is now {renamed[older[0]]!r}" if older else repr(unknown[0][:80])
        raise CheckpointError(f"{where}: {kind} has no field {which}")
    try:
        scaling = _read_scaling(values.pop("rope_scaling", None))
        config: Config = msgspec.convert(values, kinds[kind])
        labels = msgspec.convert(table.get("labels"), tuple[str, ...] | None)
        if scaling is not None:
            config = dataclasses.replace(config, rope_scaling=scaling)
    except (msgspec.ValidationError, TypeError) as error:
        raise CheckpointError(f"{where}: {error}") from None
    require_sane(config, tensors, where)
    return config, labels


def _wanted(name: object, known: Mapping[str, object], older: Mapping[str, str]) -> str:
    """The new name of something that older files call by its class, or else all known names."""
    new = older.get(name) if isinstance(name, str) else None
    return f"it is now {new!r}" if new else f"wanted one of {', '.join(known)}"


def _read_scaling(value: object) -> RopeScaling | None:
    if value is None:
        return None
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(kind, str) or kind not in ROPE_SCALINGS:
        older = {scaling.__name__: name for name, scaling in ROPE_SCALINGS.items()}
        wanted = _wanted(kind, ROPE_SCALINGS, older)
        raise msgspec.ValidationError(f"rope_scaling has the kind {repr(kind)[:80]}, {wanted}")
    rest = {name: item for name, item in value.items() if name != "kind"}
    if unknown := sorted(rest.keys() - {field.name for field in dataclasses.fields(ROPE_SCALINGS[kind])}):
        raise msgspec.ValidationError(f"rope_scaling of kind {kind} has no field {unknown[0][:80]!r}")
    return msgspec.convert(rest, ROPE_SCALINGS[kind])
