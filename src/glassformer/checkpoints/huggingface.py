"""Read and write the config.json and the tensor names of every Hugging Face family, from its tables."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from glassformer.checkpoints.families import bert, clip, gpt2, llama, marian, t5, vit
from glassformer.checkpoints.families.family import Head, ModelFamily
from glassformer.checkpoints.hf_config import HFConfig, require_sane
from glassformer.checkpoints.tensor_map import TensorMap, expand
from glassformer.errors import CheckpointError, ConfigError
from glassformer.layers.config import Config, as_declared, in_plain_words

# Every family by its model_type: to add one, write its file and add it here.
FAMILIES: dict[str, ModelFamily] = {
    family.model_type: family for module in (gpt2, llama, bert, t5, marian, clip, vit) for family in module.FAMILIES
}


@dataclass(frozen=True)
class HFModel:
    """A configuration in its Hugging Face family, with its labels.

    `fields` are the other fields of the config.json, `generation` is the generation_config.json beside it; both are
    kept as data and written back.
    """

    family: ModelFamily
    config: Config
    labels: tuple[str, ...] | None = None
    fields: Mapping[str, object] | None = None
    generation: Mapping[str, object] | None = None

    @property
    def head(self) -> Head:
        """The head of an encoder or decoder, empty for models with only one."""
        return self.family.head(self.config)

    @property
    def rows(self) -> list[TensorMap]:
        """The table of tensors, one row for each layer, under the names of the model with its head."""
        counts = {row.native: row.value(self.config) for row in self.family.fields}
        return list(expand(self.family.tensors(self.config), counts))

    @property
    def written_rows(self) -> list[TensorMap]:
        """The table under the names in the file of this model, which has no base prefix without a head."""
        if self.head not in ("hidden", "pooled", "sentence"):
            return self.rows
        return [replace(row, hf=row.hf.removeprefix(self.family.base)) for row in self.rows]


def read_hf_model(table: Mapping[str, object], names: Collection[str], where: str) -> HFModel:
    """The model that a config.json and the names of the tensors beside it describe."""
    kind = table.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        shown = "missing" if kind is None else repr(kind)[:80]
        raise CheckpointError(f"{where}: model_type is {shown}; there are {', '.join(FAMILIES)}")
    family = FAMILIES[kind]
    fields = HFConfig(table, where, family.synonyms)
    fields.must("model_type", kind)
    labels = fields.labels()
    try:
        config = _read_config(family, fields, names)
    except ConfigError as error:
        raise CheckpointError(f"{where}: {error}") from None
    require_sane(config, len(names), where)
    if not family.classes(config) and labels == numbered_labels(len(labels or ())):
        labels = None  # every config.json has these, with or without a classifier
    return HFModel(family, config, labels, fields.rest(family.harmless))


def _read_config(family: ModelFamily, fields: HFConfig, names: Collection[str]) -> Config:
    for name, allowed in family.fixed.items():
        fields.must(name, *allowed)
    values: dict[str, object] = {}
    for row in family.fields:
        value = row.read(fields, family.defaults)
        if values.setdefault(row.native, value) != value:
            first = next(other.hf for other in family.fields if other.native == row.native)
            raise CheckpointError(f"{fields.where}: {row.hf} differs from {first}, wanted the same number")
    config: Config = replace(family.defaults, **values)
    implied = [row.native for row in family.fields if row.otherwise and values[row.native] == row.otherwise(config)]
    config = replace(config, **dict.fromkeys(implied))
    if len(family.architectures) > 1:
        head = _read_head(family.architectures, fields, names)
        config = replace(config, head=head, classes=fields.classes())
    return family.read(fields, names, config)


def _read_head(architectures: Mapping[str, Head], fields: HFConfig, names: Collection[str]) -> Head:
    """The head of the class that the file names, or of the first; a file without a pooler has hidden states only."""
    (kind,) = fields.strings("architectures")[:1] or [next(iter(architectures))]
    if "lm" in architectures.values():  # a decoder under any other name is a language model
        return architectures.get(kind, "lm")
    if kind not in architectures:
        raise CheckpointError(f"{fields.where}: architectures is {kind[:80]!r}, wanted {' or '.join(architectures)}")
    pooled = any("pooler." in name for name in names)
    return "hidden" if architectures[kind] == "pooled" and not pooled else architectures[kind]


def numbered_labels(classes: int) -> tuple[str, ...]:
    """The names that `transformers` gives to classes without names."""
    return tuple(f"LABEL_{i}" for i in range(classes))


def class_count(config: Config) -> int:
    """The number of classes that a configuration's classifier has, 0 without a classifier."""
    return next((family.classes(config) for family in FAMILIES.values() if type(config) is type(family.defaults)), 0)


def find_hf_model(config: Config, labels: tuple[str, ...] | None = None, first: object = None) -> HFModel:
    """The first family that can express a configuration; `first` is the model_type to try before the others.

    Where none can, the error is about the nearest, which differs in the fewest settings.
    """
    reasons: list[tuple[int, str]] = []
    for family in sorted(FAMILIES.values(), key=lambda family: family.model_type != first):
        if type(config) is type(family.defaults) and not family.read_only:
            found = HFModel(family, config, labels)
            try:
                table, names = config_table(found), {row.hf for row in found.written_rows if row.native}
                back = read_hf_model(table, names, family.model_type)
                if config_table(replace(back, labels=labels)) == table:
                    return found
                reasons.append((1, f"{family.model_type} would read its config.json as another model"))
            except CheckpointError as error:
                refusals = list(_refusals(found))
                reasons.append((max(len(refusals), 1), str(error)))
    nearest = min(reasons, key=lambda reason: reason[0], default=(0, ""))[1]
    why = nearest or f"{type(config).__name__} belongs to none of its families"
    raise CheckpointError(f"this model cannot be written for Hugging Face: {why}")


def known_hf_model(config: Config, first: object = None) -> HFModel | None:
    """The first family that can express a configuration, or None if there is none."""
    try:
        return find_hf_model(config, None, first)
    except CheckpointError:
        return None


def config_table(model: HFModel) -> dict[str, object]:
    """The config.json of a model, without what a tokenizer or a dtype adds; raises if the family cannot express it."""
    family, config = model.family, model.config
    if refusal := next(_refusals(model), None):
        raise refusal
    table: dict[str, object] = {"model_type": family.model_type, "architectures": [_architecture(model)]}
    for row in family.fields:
        value, kind = row.value(config), row.kind_for(config)
        try:
            as_declared(row.native, value, kind)
        except ConfigError:
            raise family.refusal(row.native, value, in_plain_words(kind)) from None
        for name in (row.hf, *row.also):
            if table.setdefault(name, row.to_hf(value)) != row.to_hf(value):
                raise family.refusal(row.native, value, repr(table[name]))
    table |= {**family.constants, **family.write(config)}
    if names := model.labels or numbered_labels(family.classes(config)):
        table["id2label"] = {str(i): name for i, name in enumerate(names)}
        table["label2id"] = {name: i for i, name in enumerate(names)}
    return table


def _refusals(model: HFModel) -> Iterator[CheckpointError]:
    """An error for each setting that the family always has at its default, and this model has not."""
    family = model.family
    said = {*family.exceptions, *(row.native for row in family.fields)}
    for name, value in vars(model.config).items():
        if name not in said and value != vars(family.defaults)[name]:
            yield family.refusal(name, value, repr(vars(family.defaults)[name]))


def _architecture(model: HFModel) -> str:
    """The class in transformers with the model's head; sentence pooling happens outside of it."""
    heads = {"hidden": ("hidden", "pooled"), "sentence": ("hidden", "pooled")}.get(model.head, (model.head,))
    found = next((name for name, head in model.family.architectures.items() if head in heads), None)
    if found is None:
        raise CheckpointError(f"head is {model.head!r}, for which {model.family.name} has no class")
    return found
