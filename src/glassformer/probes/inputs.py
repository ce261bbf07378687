"""What a probe runs a model on: tensors by name, or a text for a model that `gf.load` returned."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from torch import Tensor, nn

from glassformer.errors import ModelError

Tokens: TypeAlias = str | Sequence[int]
Inputs: TypeAlias = Tensor | Mapping[str, object] | Tokens


@dataclass(frozen=True)
class ModelInputs:
    """A model, the arguments of one forward pass by name, and the tokens behind them as text."""

    model: nn.Module
    values: dict[str, object]
    tokens: Mapping[str, Sequence[str]] = field(default_factory=dict)


class TextModel(ABC):
    """A model with its tokenizer, as `gf.load` returns it."""

    @property
    @abstractmethod
    def model(self) -> nn.Module:
        """The model itself."""

    @abstractmethod
    def inputs(self, text: Tokens, second: Tokens | None = None) -> ModelInputs:
        """A text, or token ids, as arguments of the model."""


def read_inputs(model: nn.Module | TextModel, inputs: Inputs) -> ModelInputs:
    """The arguments of a forward pass: a text is encoded, a tensor is the first argument."""
    if not isinstance(model, nn.Module | TextModel):
        raise ModelError(f"model is of the type {type(model).__name__}, wanted what gf.load or gf.build returns")
    if isinstance(model, TextModel) and not isinstance(inputs, Tensor | Mapping):
        return model.inputs(inputs)
    module = model if isinstance(model, nn.Module) else model.model
    if isinstance(inputs, Mapping):
        return ModelInputs(module, dict(inputs))
    if isinstance(inputs, Tensor):
        eager = dict(module.named_children()).get("_orig_mod", module)  # the model inside torch.compile
        return ModelInputs(module, {next(iter(inspect.signature(eager.forward).parameters)): inputs})
    if isinstance(inputs, str):
        raise ModelError(f"{type(module).__name__} is a bare model and reads no text: use what gf.load returns")
    wanted = "a tensor, or a mapping of them by name"
    raise ModelError(
        f"inputs are of the type {type(inputs).__name__}, wanted {wanted}; text needs a model from gf.load"
    )
