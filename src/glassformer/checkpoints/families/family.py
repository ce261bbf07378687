"""A Hugging Face family as data: its settings and its tensors, each a table that is read both ways."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, TypeAlias, TypeVar

import torch
from torch import Tensor

from glassformer.checkpoints.hf_config import HFConfig
from glassformer.checkpoints.tensor_map import TensorMap
from glassformer.errors import CheckpointError
from glassformer.layers.config import Config, field_types
from glassformer.layers.model import Model

C = TypeVar("C", bound=Config)
Head: TypeAlias = Literal["", "lm", "hidden", "pooled", "sentence", "masked", "classifier", "span"]


@dataclass(frozen=True)
class FieldMap(Generic[C]):
    """One setting under both names.

    Hugging Face's values have the type and range that the native field declares, unless `kind` gives another or they
    are `words` that stand for native values; of several words for the same value, the first is written. A setting with
    several rows must be the same in all fields; the fields in `also` are written and not read. `otherwise` computes
    what a native None stands for. A file without a `required` field is an error.
    """

    native: str
    hf: str
    kind: object = None
    words: Mapping[str, object] | None = None
    also: tuple[str, ...] = ()
    otherwise: Callable[[C], object] | None = None
    required: bool = False

    def kind_for(self, config: C) -> object:
        """The type and range of the field."""
        return field_types(type(config))[self.native] if self.kind is None else self.kind

    def value(self, config: C) -> object:
        """The native value, with what None stands for."""
        value = vars(config)[self.native]
        return self.otherwise(config) if value is None and self.otherwise else value

    def to_hf(self, value: object) -> object:
        """The Hugging Face value for a native one."""
        return value if self.words is None else next(word for word, meaning in self.words.items() if meaning == value)

    def read(self, fields: HFConfig, defaults: C) -> object:
        """The native value of the field, or the default."""
        default = [] if self.required else [self.to_hf(vars(defaults)[self.native])]
        if self.words is not None:
            return fields.word(self.hf, self.words, *default)
        return fields.get(self.hf, self.kind_for(defaults), *default)


def fields(*, required: bool = False, **names: str) -> list[FieldMap[C]]:
    """Settings with the same values under both names, as native=hf."""
    return [FieldMap(native, hf, required=required) for native, hf in names.items()]


@dataclass(frozen=True)
class ModelFamily(Generic[C]):
    """One `model_type` of Hugging Face, called `name` in errors.

    `defaults` is the native configuration of an empty config.json. A setting without a row in `fields` must have its
    default value, unless it is one of the `exceptions`: settings that `read` and `write` handle because a row cannot,
    and settings that matter in training only. Fields in `fixed` must have one of these values, those in `constants`
    are always written, and those in `harmless` are ignored.

    `architectures` are the classes with the head that each has. Files of a model without a head leave out the `base`
    of the tensor names. Families that are `read_only` have no class in transformers. `modules` are parts of tensor
    names that its modules call otherwise.
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
    modules: Mapping[str, str] = field(default_factory=dict)

    def module(self, tensor: str) -> str:
        """The module in transformers that holds a tensor of a file."""
        name = tensor.rpartition(".")[0]
        for file, module in self.modules.items():
            name = name.replace(file, module)
        return name

    def refusal(self, setting: str, value: object, wanted: object) -> CheckpointError:
        """The error for a setting that this family cannot express, and if `wanted` is one value, how to train it."""
        found = SETTABLE.fullmatch(str(wanted))
        hint = f": train with model.{setting}={(found[1] or found[2]).lower()}" if found else ""
        return CheckpointError(f"{setting} is {value!r}, but {self.name} can only say {wanted}{hint}")


def are_positions(table: Tensor, _model: Model) -> bool:
    """Whether a table that old files hold counts positions from 0."""
    return torch.equal(table.flatten(), torch.arange(table.numel(), device=table.device))


SETTABLE = re.compile(r"'(\w+)'|(True|False|None|[\d.]+)")  # a value as `repr` writes it
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


def classifier_rows(rows: Sequence[TensorMap], body: str) -> list[TensorMap]:
    """The tensors of a causal model as those of a classifier over it, under `body`, with score as its head."""
    kept = [replace(row, native=row.native and body + row.native) for row in rows if row.hf != "lm_head.weight"]
    return [*kept, TensorMap("classifier.weight", "score.weight", transposed=True)]


# Names in a block of fairseq, which Marian, BART and fairseq's RoBERTa share.
FAIRSEQ_ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
FAIRSEQ_BLOCK = {
    **{f"attention.{native}": f"self_attn.{hf}" for native, hf in FAIRSEQ_ATTENTION.items()},
    "attention_norm": "self_attn_layer_norm",
    "feed_forward.up": "fc1",
    "feed_forward.down": "fc2",
    "feed_forward_norm": "final_layer_norm",
}
