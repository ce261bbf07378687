"""What the engine knows of a family: its name there, its configuration both ways, its table of tensors."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from glassformer.checkpoints.hf_config import HFConfig
from glassformer.checkpoints.tensor_map import TensorMap
from glassformer.errors import CheckpointError
from glassformer.layers.config import Config

C = TypeVar("C", bound=Config)


@dataclass(frozen=True)
class ModelFamily(Generic[C]):
    """One `model_type` of Hugging Face.

    `read` makes our configuration of a config.json and the names in the file beside it, `write` makes the
    config.json of our configuration or raises on one the family has no words for, and `rows` is the table of
    tensors. Names in files of the bare model lack the `base`; `bare` says which of our models are written so.
    Transformers knows some fields under `synonyms` too, and in this family reads none of the `harmless` ones.
    """

    model_type: str
    kind: type[C]
    read: Callable[[HFConfig, Collection[str]], C]
    write: Callable[[C], dict[str, object]]
    rows: Callable[[C], Sequence[TensorMap]]
    base: str = ""
    bare: Callable[[C], bool] = field(default=lambda _: False)
    synonyms: Mapping[str, str] = field(default_factory=dict)
    harmless: frozenset[str] = frozenset()


def require(family: str, **settings: tuple[object, object]) -> None:
    """Raise unless each setting has the one value that a family can express; each is (value, wanted)."""
    for name, (value, wanted) in settings.items():
        if value != wanted:
            raise CheckpointError(f"{name} is {value!r}, but {family} can only say {wanted!r}")


# Their words for activations, the first of several for ours the one that is written.
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


def activation_word(activation: str) -> str:
    """Their word for one of our activations."""
    return next(theirs for theirs, ours in ACTIVATION_WORDS.items() if ours == activation)
