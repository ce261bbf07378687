"""Our own layout: config.json says which model and its configuration, tensors keep our names."""

import dataclasses
from collections.abc import Iterator, Mapping

import msgspec

from glassformer.checkpoints.fields import MOST_LAYERS, MOST_PLACES
from glassformer.errors import CheckpointError
from glassformer.layers.rotary import BaseScaling, LinearScaling, Llama3Scaling, NTKScaling, Scaling, YarnScaling
from glassformer.models.build import MODELS
from glassformer.models.presets import Config

KIND = "glassformer"  # the field that says which model
SCALINGS: dict[str, type[Scaling]] = {
    kind.__name__: kind for kind in (Scaling, BaseScaling, LinearScaling, NTKScaling, YarnScaling, Llama3Scaling)
}


def own_table(config: Config, labels: tuple[str, ...] | None) -> dict[str, object]:
    """A configuration as a config.json of ours."""
    table: dict[str, object] = {KIND: MODELS[type(config)].__name__, **dataclasses.asdict(config)}
    scaling = getattr(config, "scaling", None)
    if scaling is not None:
        table["scaling"] = {"kind": type(scaling).__name__, **dataclasses.asdict(scaling)}
    return table if labels is None else {**table, "labels": list(labels)}


def read_own(table: Mapping[str, object], tensors: int, where: str) -> tuple[Config, tuple[str, ...] | None]:
    """The configuration in a config.json of ours, and the names of its classes."""
    kinds = {model.__name__: config for config, model in MODELS.items()}
    kind = table[KIND]
    if not isinstance(kind, str) or kind not in kinds:
        raise CheckpointError(f"{where}: {KIND} is {repr(kind)[:80]}, wanted one of {', '.join(kinds)}")
    values = {name: value for name, value in table.items() if name not in (KIND, "labels")}
    known = {field.name for field in dataclasses.fields(kinds[kind])}
    if unknown := sorted(values.keys() - known):
        raise CheckpointError(f"{where}: {kind} has no field {unknown[0][:80]!r}")
    try:
        scaling = _read_scaling(values.pop("scaling", None))
        config: Config = msgspec.convert(values, kinds[kind])
        labels = msgspec.convert(table.get("labels"), tuple[str, ...] | None)
        if scaling is not None:
            config = dataclasses.replace(config, scaling=scaling)
    except (msgspec.ValidationError, TypeError) as error:
        raise CheckpointError(f"{where}: {error}") from None
    _require_sane(config, tensors, where)
    return config, labels


def _read_scaling(value: object) -> Scaling | None:
    if value is None:
        return None
    if not isinstance(value, dict) or value.get("kind") not in SCALINGS:
        raise msgspec.ValidationError(f"scaling has no kind out of {', '.join(SCALINGS)}")
    rest = {name: item for name, item in value.items() if name != "kind"}
    kind = SCALINGS[value["kind"]]
    if rest.keys() - {field.name for field in dataclasses.fields(kind)}:
        raise msgspec.ValidationError(f"scaling has a field that {kind.__name__} has not")
    return msgspec.convert(rest, kind)


def _require_sane(config: Config, tensors: int, where: str) -> None:
    """Refuse sizes that no model has, before anything is built from them."""
    for name, value in _whole_numbers(config):
        most = MOST_PLACES
        if name.endswith("layers"):
            most = MOST_LAYERS if getattr(config, "shared", False) else min(tensors, MOST_LAYERS)
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
