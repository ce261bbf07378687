"""A Hugging Face family as data: its settings and its tensors, each a table that is read both ways."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeAlias, TypeVar

from glassformer.checkpoints.hf_config import HFConfig
from glassformer.checkpoints.tensor_map import TensorMap
from glassformer.errors import CheckpointError
from glassformer.layers.config import Config, field_types

C = TypeVar("C", bound=Config)
Head: TypeAlias = Literal["", "hidden", "pooled", "sentence", "masked", "classifier"]


@dataclass(frozen=True)
class FieldMap(Generic[C]):
    """One setting under both names.

    Their values have the declared type and range of ours, unless `kind` gives another or they are `words` that stand
    for our values; of several words for the same value, the first is written. A setting with several rows must be the
    same in all fields; the fields in `also` are written and not read. Where ours is None, `otherwise` says what that
    stands for. A file without a `required` field is an error.
    """

    ours: str
    theirs: str
    kind: object = None
    words: Mapping[str, object] | None = None
    also: tuple[str, ...] = ()
    otherwise: Callable[[C], object] | None = None
    required: bool = False

    def kind_for(self, config: C) -> object:
        """The type and range of the field."""
        return field_types(type(config))[self.ours] if self.kind is None else self.kind

    def value(self, config: C) -> object:
        """Our value, with what None stands for."""
        value = vars(config)[self.ours]
        return self.otherwise(config) if value is None and self.otherwise else value

    def to_theirs(self, value: object) -> object:
        """Their value for one of ours."""
        return value if self.words is None else next(word for word, ours in self.words.items() if ours == value)

    def read(self, fields: HFConfig, defaults: C) -> object:
        """Our value of the field, or the default."""
        default = [] if self.required else [self.to_theirs(vars(defaults)[self.ours])]
        if self.words is not None:
            return fields.word(self.theirs, self.words, *default)
        return fields.get(self.theirs, self.kind_for(defaults), *default)


@dataclass(frozen=True)
class ModelFamily(Generic[C]):
    """One `model_type` of Hugging Face, called `name` in errors.

    `defaults` is our configuration of a config.json without any field. A setting that has no row in `fields` and is
    not among the `exceptions` can only have the value it has there. `read` and `write` handle what a row cannot say;
    the exceptions are theirs, and what matters in training only. Fields in `fixed` must have one of these values,
    those in `constants` are written as they are, and nothing reads those in `harmless`.

    `architectures` are the classes with the head that each has. Files of a model without a head leave out the `base`
    of the tensor names. Families that are `read_only` have no class in transformers.
    """

    model_type: str
    name: str
    defaults: C
    fields: Sequence[FieldMap[C]]
    tensors: Callable[[C], Sequence[TensorMap]]
    architectures: Mapping[str, Head] = field(default_factory=dict)
    read: Callable[[HFConfig, Collection[str], C], C] = lambda _fields, _names, config: config
    write: Callable[[C], Mapping[str, object]] = lambda _: {}
    exceptions: Collection[str] = ()
    fixed: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    constants: Mapping[str, object] = field(default_factory=dict)
    synonyms: Mapping[str, str] = field(default_factory=dict)
    harmless: Collection[str] = ()
    base: str = ""
    head: Callable[[C], Head] = lambda _: ""
    classes: Callable[[C], int] = lambda _: 0
    read_only: bool = False

    def refusal(self, setting: str, value: object, wanted: object) -> CheckpointError:
        """The error for a setting that this family has no words for."""
        return CheckpointError(f"{setting} is {value!r}, but {self.name} can only say {wanted}")


ACTIVATION_WORDS: dict[str, Literal["gelu", "gelu_tanh", "relu", "silu"]] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python": "gelu",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
