"""The base of every model, with its input checks, and the protocol of decoder-only language models."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor, nn

from glassformer.equation import MODE, no_checks
from glassformer.equations.embedding import unembed
from glassformer.equations.masks import padding_mask
from glassformer.errors import ModelError
from glassformer.layers.basic import Embedding
from glassformer.layers.block import Stack
from glassformer.layers.cache import DecoderState, KVCache, left_padded
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


class CausalLM(Model):
    """A language model that reads left to right: token ids in, logits for each next token out.

    An architecture sets `embedding`, `stack` and `output` (None where the embedding is tied), and overrides `embed`
    if more happens before the first block. A recurrent or state-space model overrides `forward` and `new_cache`.
    """

    embedding: Embedding
    stack: Stack
    output: nn.Module | None
    reads_source = False
    can_rewind = True  # whether a cache can go back to a shorter text, which speculative decoding needs

    @property
    def tied_output_scale(self) -> float:
        """Factor on the hidden states before a tied embedding scores them."""
        return 1.0

    @property
    def max_length(self) -> int | None:
        """The longest sequence the model can read, or None if there is no limit."""
        return self.config.context

    def embed(self, ids: Tensor, positions: Tensor | None) -> Tensor:
        """Hidden states [batch, seq, dim] that enter the first block; without positions, tokens count from 0."""
        return self.embedding(ids)

    def unembed(self, x: Tensor) -> Tensor:
        """Logits [batch, seq, vocab] from the hidden states that leave the last norm."""
        return unembed(x, self.embedding.weight) if self.output is None else self.output(x)

    def check(self, ids: Tensor, attention_mask: Tensor | None = None, cache: DecoderState | None = None) -> None:
        """Raise on token ids the model cannot take."""
        self.check_tokens("ids", ids, self.config.vocab, self.max_length)
        self.check_mask("attention_mask", attention_mask, ids)
        self.check_cache(ids, attention_mask, cache, self.max_length)

    @checks_inputs(check)
    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, cache: DecoderState | None = None) -> Tensor:
        """Logits [batch, seq, vocab] from token ids [batch, seq]; `attention_mask` is false for padding.

        With a cache, the tokens continue those it holds, and are added to it.
        """
        if cache is None:
            x = self.embed(ids, None)
            mask = None if attention_mask is None else padding_mask(attention_mask, dtype=x.dtype)
            return self.unembed(self.stack(x, mask))
        if not isinstance(cache, KVCache):
            raise ModelError(f"{type(self).__name__}: cache is a {type(cache).__name__}, wanted a KVCache")
        context = cache.attention_context(ids.shape[1])
        x = self.stack(self.embed(ids, context.positions), cache=cache, context=context)
        cache.advance(ids.shape[1])
        return self.unembed(x)

    def new_cache(self, batch: int, slots: int, padding: Tensor | None = None, headroom: int = 1) -> DecoderState:
        """An empty cache for sequences of up to `slots` tokens; the first `padding` columns of each are empty."""
        return self.stack.cache(batch, slots, self.embedding.weight, padding, headroom)

    def decoder_input(self, prompt: Sequence[int], start: int) -> Sequence[int]:
        """The tokens a decoder reads before the first one it predicts: here the prompt."""
        return prompt

    def prefill(self, prompts: Sequence[Sequence[int]], slots: int, chunk: int) -> DecoderState:
        """Read all but the last token of each prompt into a new cache, `chunk` tokens at a time."""
        ids, padding = left_padded(prompts, 0, self.embedding.weight.device)
        cache = self.new_cache(len(prompts), slots, padding, chunk)
        for part in ids[:, :-1].split(chunk, 1):
            if part.shape[1]:
                self(part, cache=cache)
        return cache

    def decode_step(self, ids: Tensor, cache: DecoderState) -> Tensor:
        """Logits [batch, new, vocab], in float32 or finer, after reading tokens [batch, new] into the cache."""
        logits = self(ids, cache=cache)
        return logits if logits.dtype == torch.float64 else logits.float()
