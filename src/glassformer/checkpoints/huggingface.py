"""The one engine for Hugging Face's families: a config.json and names in, our configuration and rows out, and back."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from glassformer.checkpoints.families.family import ModelFamily
from glassformer.checkpoints.families.registry import KNOWN_FAMILIES, READ_ONLY
from glassformer.checkpoints.hf_config import HFConfig
from glassformer.checkpoints.tensor_map import TensorMap, expand
from glassformer.errors import CheckpointError, ConfigError
from glassformer.layers.config import Config


@dataclass(frozen=True)
class HFModel:
    """One of our configurations beside its family, with the names of the classes and what else was said.

    `fields` are of the config.json, `generation` is the generation_config.json beside it; both are kept as data.
    """

    family: ModelFamily
    config: Config
    labels: tuple[str, ...] | None = None
    fields: Mapping[str, object] | None = None
    generation: Mapping[str, object] | None = None

    @property
    def rows(self) -> list[TensorMap]:
        """The table of tensors, one row for each block, under the names of the whole model."""
        return list(expand(self.family.rows(self.config), _counts(self.config)))

    @property
    def written_rows(self) -> list[TensorMap]:
        """The table under the names that a file of this very model has."""
        base = self.family.base
        if not (base and self.family.bare(self.config)):
            return self.rows
        return [replace(row, theirs=row.theirs.removeprefix(base)) for row in self.rows]


def _counts(config: Config) -> dict[str, int]:
    """How many blocks each word of the tables stands for."""
    layers = getattr(config, "layers", 0)
    writers = getattr(config, "decoder_layers", None)
    return {"layers": layers, "decoder_layers": layers if writers is None else writers, "shared_layers": 1}


def read_hf_model(table: Mapping[str, object], names: Collection[str], where: str) -> HFModel:
    """What a config.json and the names of the tensors beside it describe."""
    kind = table.get("model_type")
    if not isinstance(kind, str) or kind not in KNOWN_FAMILIES:
        shown = "missing" if kind is None else repr(kind)[:80]
        raise CheckpointError(f"{where}: model_type is {shown}; there are {', '.join(KNOWN_FAMILIES)}")
    family = KNOWN_FAMILIES[kind]
    fields = HFConfig(table, where, family.synonyms)
    fields.must("model_type", kind)
    labels = fields.labels()
    try:
        config = family.read(fields, names)
    except ConfigError as error:
        raise CheckpointError(f"{where}: {error}") from None
    _require_few_layers(family, config, len(names), where)
    if getattr(config, "head", "") != "classifier" and labels == numbered_labels(len(labels or ())):
        labels = None  # every config.json has these, whether there are classes or not
    return HFModel(family, config, labels, fields.rest(family.harmless))


def numbered_labels(classes: int) -> tuple[str, ...]:
    """What `transformers` calls classes that nobody has named."""
    return tuple(f"LABEL_{i}" for i in range(classes))


def _require_few_layers(family: ModelFamily, config: Config, tensors: int, where: str) -> None:
    """Refuse more layers than the file has tensors, before they are listed one by one."""
    counts = _counts(config)
    for word in {row.per for row in family.rows(config) if row.per}:
        if counts[word] > tensors:
            raise CheckpointError(f"{where}: says {counts[word]} {word}, but the file has only {tensors} tensors")


def find_hf_model(config: Config, labels: tuple[str, ...] | None = None, first: object = None) -> HFModel:
    """The first family that can say what a configuration says, with one to be tried before the others."""
    reasons: list[str] = []
    for family in sorted(KNOWN_FAMILIES.values(), key=lambda family: family.model_type != first):
        if isinstance(config, family.kind) and family not in READ_ONLY:
            twin = HFModel(family, config, labels)
            try:
                _require_reading_back(twin)
            except CheckpointError as error:
                reasons.append(str(error))
            else:
                return twin
    why = "; ".join(reasons) or f"{type(config).__name__} belongs to none of its families"
    raise CheckpointError(f"this model cannot be written for Hugging Face: {why}")


def _require_reading_back(twin: HFModel) -> None:
    """Raise unless the config.json of a model says to `read_twin` what it was written from."""
    table, name = config_table(twin), twin.family.model_type
    back = read_hf_model(table, {row.theirs for row in twin.written_rows if row.names}, name)
    if config_table(replace(back, labels=twin.labels)) != table:
        raise CheckpointError(f"{name} would read its config.json as another model")


def config_table(twin: HFModel) -> dict[str, object]:
    """The config.json of a twin, without what a tokenizer or a number type adds."""
    table = {"model_type": twin.family.model_type, **twin.family.write(twin.config)}
    classes = getattr(twin.config, "classes", 0) if getattr(twin.config, "head", "") == "classifier" else 0
    names = twin.labels or numbered_labels(classes)
    if names:
        table["id2label"] = {str(i): name for i, name in enumerate(names)}
        table["label2id"] = {name: i for i, name in enumerate(names)}
    return table
