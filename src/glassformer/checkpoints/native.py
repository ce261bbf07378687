"""Our own layout: config.json says which model and its configuration, tensors keep our names."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence, Set

import msgspec

from glassformer.checkpoints.hf_config import MOST_LAYERS, MOST_PLACES
from glassformer.errors import CheckpointError
from glassformer.layers.config import Config
from glassformer.layers.rotary import LinearScaling, Llama3Scaling, NTKScaling, RopeScaling, ThetaScaling, YarnScaling
from glassformer.models.registry import ARCHITECTURES, architecture_of, config_type

KIND = "glassformer"  # the field that says which model
SCALINGS: dict[str, type[RopeScaling]] = {
    kind.__name__: kind for kind in (RopeScaling, ThetaScaling, LinearScaling, NTKScaling, YarnScaling, Llama3Scaling)
}
# What older files call the fields of a configuration, and what these are called now.
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
    """A configuration as a config.json of ours."""
    table: dict[str, object] = {KIND: architecture_of(config), **dataclasses.asdict(config)}
    scaling = getattr(config, "rope_scaling", None)
    if scaling is not None:
        table["rope_scaling"] = {"kind": type(scaling).__name__, **dataclasses.asdict(scaling)}
    return table if labels is None else {**table, "labels": list(labels)}


def read_native(table: Mapping[str, object], tensors: int, where: str) -> tuple[Config, tuple[str, ...] | None]:
    """The configuration in a config.json of ours, and the names of its classes."""
    kinds = {name: config_type(model) for name, model in ARCHITECTURES.items()}
    kind = table[KIND]
    if not isinstance(kind, str) or kind not in kinds:
        raise CheckpointError(f"{where}: {KIND} is {repr(kind)[:80]}, {_wanted_architecture(kind)}")
    values = {name: value for name, value in table.items() if name not in (KIND, "labels")}
    known = {field.name for field in dataclasses.fields(kinds[kind])}
    if unknown := sorted(values.keys() - known):
        raise CheckpointError(f"{where}: {kind} has no field {_with_new_name(kind, unknown, known)}")
    try:
        scaling = _read_scaling(values.pop("rope_scaling", None))
        config: Config = msgspec.convert(values, kinds[kind])
        labels = msgspec.convert(table.get("labels"), tuple[str, ...] | None)
        if scaling is not None:
            config = dataclasses.replace(config, rope_scaling=scaling)
    except (msgspec.ValidationError, TypeError) as error:
        raise CheckpointError(f"{where}: {error}") from None
    _require_sane(config, tensors, where)
    return config, labels


def _wanted_architecture(kind: object) -> str:
    """The new name of an architecture, which older files call by its class, or else all names there are."""
    new = [name for name, model in ARCHITECTURES.items() if model.__name__ == kind]
    return f"it is now {new[0]!r}" if new else f"wanted one of {', '.join(ARCHITECTURES)}"


def _with_new_name(architecture: str, unknown: Sequence[str], known: Set[str]) -> str:
    """A field that there is not, and what it is called now if it was renamed."""
    renamed = RENAMED_FIELDS | RENAMED_ELSEWHERE.get(architecture, {})
    for name in unknown:
        if renamed.get(name) in known:
            return f"{name!r}: it is now {renamed[name]!r}"
    return repr(unknown[0][:80])


def _read_scaling(value: object) -> RopeScaling | None:
    if value is None:
        return None
    if not isinstance(value, dict) or value.get("kind") not in SCALINGS:
        raise msgspec.ValidationError(f"rope_scaling has no kind out of {', '.join(SCALINGS)}")
    rest = {name: item for name, item in value.items() if name != "kind"}
    kind = SCALINGS[value["kind"]]
    if rest.keys() - {field.name for field in dataclasses.fields(kind)}:
        raise msgspec.ValidationError(f"rope_scaling has a field that {kind.__name__} has not")
    return msgspec.convert(rest, kind)


def _require_sane(config: Config, tensors: int, where: str) -> None:
    """Refuse sizes that no model has, before anything is built from them."""
    for name, value in _whole_numbers(config):
        most = MOST_PLACES
        if name.endswith("layers"):
            most = MOST_LAYERS if getattr(config, "share_layers", False) else min(tensors, MOST_LAYERS)
        if not 0 <= value <= most:
            raise CheckpointError(f"{where}: {name} is {value}, wanted from 0 to {most}")


def _whole_numbers(value: object, name: str = "") -> Iterator[tuple[str, int]]:
    """Every whole number in a configuration, with its field."""
    if type(value) is int:
        yield name, value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _whole_numbers(item, name)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _whole_numbers(getattr(value, field.name), field.name)
