"""The base of every model: its configuration, input checks, and how it prints."""

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor, nn

from glassformer.equation import MODE, no_checks
from glassformer.errors import ModelError
from glassformer.layers.cache import DecoderState
from glassformer.layers.config import Config

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", bound="Model")


class Model(nn.Module):
    """A network that checks its inputs once and prints itself as a tree."""

    config: Any  # the frozen dataclass that it was built from
    init_weights: Callable[..., None]  # each model's own: draws fresh weights from a generator
    check: Callable[..., None]  # each model's own: raises on inputs that its forward cannot take
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

    def check_mask(self, symbol: str, attention_mask: Tensor | None, ids: Tensor) -> None:
        """Raise unless an attention mask is boolean, one entry for each token."""
        if attention_mask is None:
            return
        where = f"{type(self).__name__}: {symbol}"
        if attention_mask.dtype != torch.bool:
            raise ModelError(f"{where} has type {attention_mask.dtype}, wanted bool, true for real tokens")
        if attention_mask.shape != ids.shape:
            raise ModelError(
                f"{where} has shape {list(attention_mask.shape)}, wanted {list(ids.shape)}, one for each token"
            )

    def check_cache(
        self, ids: Tensor, attention_mask: Tensor | None, cache: DecoderState | None, context: int | None
    ) -> None:
        """Raise unless the next tokens fit after those in the cache."""
        if cache is None:
            return
        where = type(self).__name__
        if attention_mask is not None:
            raise ModelError(f"{where}: attention_mask is given beside a cache, wanted the padding of the cache")
        wanted = cache.longest(ids.shape[1])
        if context is not None and wanted > context:
            raise ModelError(f"{where}: {wanted} tokens with those in the cache, wanted at most {context}, the context")

    def check_batch(self, symbol: str, ids: Tensor, like: Tensor) -> None:
        """Raise unless two batches have the same size."""
        if ids.shape[0] != like.shape[0]:
            where = f"{type(self).__name__}: {symbol}"
            raise ModelError(f"{where} has {ids.shape[0]} sequences, wanted {like.shape[0]}, as many as the source")

    def parameter_count(self) -> int:
        """Number of trainable parameters, shared ones counted once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def __repr__(self) -> str:
        return "\n".join(_tree(type(self).__name__, self, 0))


def _tree(name: str, module: nn.Module, depth: int) -> list[str]:
    """One line for each module: its name, type, parameter shapes and parameter count."""
    shapes = [f"{key} {list(value.shape)}" for key, value in module.named_parameters(recurse=False)]
    total = sum(parameter.numel() for parameter in module.parameters())
    kind = type(module).__name__
    title = "  " * depth + (name if kind in (name, "ModuleList") else f"{name}: {kind}")
    line = f"{title:<48}{total:>16,}" + (f"   {', '.join(shapes)}" if shapes else "")
    children = list(module.named_children())
    if kind == "ModuleList" and len({str(_sizes(child)) for _, child in children}) == 1 and len(children) > 1:
        first = _tree(f"0 to {len(children) - 1}, each", children[0][1], depth + 1)
        return [line.rstrip(), *first]
    return [line.rstrip(), *(row for key, child in children for row in _tree(key, child, depth + 1))]


def _sizes(module: nn.Module) -> list[tuple[str, tuple[int, ...]]]:
    return [(key, tuple(value.shape)) for key, value in module.named_parameters()]


def checks_inputs(
    check: Callable[Concatenate[M, P], None],
) -> Callable[[Callable[Concatenate[M, P], R]], Callable[Concatenate[M, P], R]]:
    """Check a model's inputs once, then run its equations without checking each.

    Neither is done under compile, nor inside `unchecked`, for a caller that has made the model's own check before.
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
