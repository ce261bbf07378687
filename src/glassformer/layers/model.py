"""The base of every model: its configuration, input checks, and how it prints."""

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor, nn

from glassformer.equation import MODE, no_checks
from glassformer.equations.embedding import unembed
from glassformer.errors import ModelError
from glassformer.layers.basic import Embedding, Linear
from glassformer.layers.config import Config

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", bound="Model")


class Model(nn.Module):
    """A network that checks its inputs once and prints itself as a tree."""

    config: Any  # the frozen dataclass that it was built from
    init_weights: Callable[..., None]  # each model's own: draws fresh weights from a generator
    check: Callable[..., None]  # each model's own: raises on inputs that its forward cannot take
    loops = False  # its forward pass goes position by position, which a compiler would write out one by one
    reads_source = True  # its input is a whole text; a CausalLM continues a prompt instead

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def check_tokens(self, symbol: str, ids: Tensor, vocab: int, context: int | None = None) -> None:
        """Raise unless these are integer ids [batch, seq] within the vocabulary and the context."""
        where = f"{type(self).__name__}: {symbol}"
        if ids.dtype not in (torch.int64, torch.int32):
            raise ModelError(f"{where} has type {ids.dtype}, wanted token ids of type int64")
        if ids.dim() != 2:
            raise ModelError(f"{where} has shape {list(ids.shape)}, wanted [batch seq]")
        if context is not None and ids.shape[1] > context:
            raise ModelError(f"{where} has {ids.shape[1]} tokens, wanted at most {context}, the model's context")
        if ids.numel() and not ids.is_meta:
            low, high = int(ids.min()), int(ids.max())
            if low < 0 or high >= vocab:
                bad = low if low < 0 else high
                raise ModelError(f"{where} holds the id {bad}, wanted ids from 0 to {vocab - 1}, the vocabulary")

    def check_mask(self, mask: Tensor | None, ids: Tensor) -> None:
        """Raise unless an attention mask is boolean, one entry for each token."""
        where = f"{type(self).__name__}: attention_mask"
        if mask is not None and mask.dtype != torch.bool:
            raise ModelError(f"{where} has type {mask.dtype}, wanted bool, true for real tokens")
        if mask is not None and mask.shape != ids.shape:
            raise ModelError(f"{where} has shape {list(mask.shape)}, wanted {list(ids.shape)}, one for each token")

    def rebuilt(self: M) -> M:
        """A model of the same configuration, whose weights are not set."""
        return type(self)(self.config)

    def parameter_count(self) -> int:
        """Number of trainable parameters, shared ones counted once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def __repr__(self) -> str:
        return "\n".join(_tree(type(self).__name__, self, 0))


class TokenPredictor(Model):
    """What decoder-only and encoder-decoder models share: an embedding, perhaps tied to the output, and a context."""

    embedding: Embedding
    output: nn.Module | None
    hidden_states: Callable[..., Tensor]  # each protocol's own: what `unembed` makes logits of, from the model's inputs
    can_rewind = False  # whether a cache can go back to a shorter text, which speculative decoding needs

    @property
    def tied_output_scale(self) -> float:
        """Factor on the hidden states before they are multiplied by a tied embedding."""
        return 1.0

    @property
    def max_length(self) -> int | None:
        """The longest sequence the model can read, or None if there is no limit."""
        return self.config.context

    def unembed(self, x: Tensor) -> Tensor:
        """Logits [batch, seq, vocab] from the hidden states that leave the last norm."""
        return unembed(x, self.embedding.weight) if self.output is None else self.output(x)

    def output_weights(self) -> tuple[Tensor, Tensor | None] | None:
        """Weights and bias of the output layer, or None where logits are more than a linear layer."""
        if type(self).unembed is not TokenPredictor.unembed:
            return None
        if self.output is None:
            return self.embedding.weight, None
        return (self.output.weight, self.output.bias) if isinstance(self.output, Linear) else None


def _tree(name: str, module: nn.Module, depth: int) -> list[str]:
    """One line for each module: its name, type, parameter shapes and parameter count."""
    shapes = [f"{key} {list(value.shape)}" for key, value in module.named_parameters(recurse=False)]
    total = sum(parameter.numel() for parameter in module.parameters())
    kind = type(module).__name__
    title = "  " * depth + (name if kind in (name, "ModuleList") else f"{name}: {kind}")
    line = f"{title:<48}{total:>16,}" + (f"   {', '.join(shapes)}" if shapes else "")
    children = list(module.named_children())
    sizes = {str([(key, value.shape) for key, value in child.named_parameters()]) for _, child in children}
    if kind == "ModuleList" and len(sizes) == 1 and len(children) > 1:
        children = [(f"0 to {len(children) - 1}, each", children[0][1])]
    return [line.rstrip(), *(row for key, child in children for row in _tree(key, child, depth + 1))]


def checks_inputs(
    check: Callable[Concatenate[M, P], None],
) -> Callable[[Callable[Concatenate[M, P], R]], Callable[Concatenate[M, P], R]]:
    """Check a model's inputs once, then run its equations without checking each.

    Neither is done under compile, nor inside `no_checks`, where the caller has already checked them.
    """

    def decorate(forward: Callable[Concatenate[M, P], R]) -> Callable[Concatenate[M, P], R]:
        @functools.wraps(forward)
        def guarded(self: M, *args: P.args, **kwargs: P.kwargs) -> R:
            if torch.compiler.is_compiling() or not MODE.checking:
                return forward(self, *args, **kwargs)
            check(self, *args, **kwargs)
            with no_checks():
                return forward(self, *args, **kwargs)

        return guarded

    return decorate
