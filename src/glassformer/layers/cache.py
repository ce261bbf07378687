"""KV cache for incremental decoding.

Sequences of a batch end together: shorter ones begin with empty columns, counted by `padding`, so all of them write
their next token into the same slot and only masks and positions differ. With a sliding window the slots are a ring
buffer: column c lies in slot c modulo their number.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from glassformer.equations.cache import write_slots
from glassformer.equations.heads import slice_axis
from glassformer.equations.masks import relative_positions, tree_mask
from glassformer.errors import ModelError


@runtime_checkable
class AttentionPattern(Protocol):
    """Which keys a query may attend to, from distances and key positions."""

    def at(self, distances: Tensor, keys: Tensor) -> Tensor:
        """True where a query may attend."""
        ...


@dataclass
class LayerKV:
    """Keys and values [batch, kv_heads, slots, head_dim] of one attention layer."""

    keys: Tensor
    values: Tensor

    def write(self, key: Tensor, value: Tensor, at: Tensor) -> None:
        """Write new keys and values into their slots; compiled code writes in place."""
        keys, values = write_slots(self.keys, key, at), write_slots(self.values, value, at)
        if not torch.compiler.is_compiling():
            self.keys, self.values = keys, values

    def read(self, count: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the first slots."""
        if count == self.keys.shape[-2]:
            return self.keys, self.values
        return slice_axis(self.keys, -2, 0, count), slice_axis(self.values, -2, 0, count)

    def select(self, rows: Tensor) -> None:
        """Take these sequences in this order."""
        self.keys, self.values = self.keys[rows], self.values[rows]


class AttentionContext:
    """Per-step attention context: positions of the new tokens, the slots they are written to, the keys they attend to.

    `start` is their first slot, given where an inference kernel may write a contiguous range; `ancestors` is true
    where a slot belongs to the beam of a token.
    """

    def __init__(
        self,
        positions: Tensor,
        slots: Tensor,
        kv_length: int,
        key_positions: Tensor | None,
        start: int | None = None,
        ancestors: Tensor | None = None,
    ) -> None:
        self.positions = positions
        self.slots = slots
        self.kv_length = kv_length
        self.key_positions = key_positions
        self.start = start
        self.ancestors = ancestors
        self.relative_positions = None if key_positions is None else relative_positions(positions, key_positions)
        self._masks: dict[AttentionPattern, Tensor] = {}

    def mask(self, pattern: AttentionPattern) -> Tensor:
        """True where the new tokens may attend; computed once for all blocks with the same pattern."""
        if torch.compiler.is_compiling():  # the compiler removes the repetition itself
            return self._mask(pattern)
        if pattern not in self._masks:
            self._masks[pattern] = self._mask(pattern)
        return self._masks[pattern]

    def _mask(self, pattern: AttentionPattern) -> Tensor:
        assert self.key_positions is not None and self.relative_positions is not None
        batched = self.key_positions.dim() > 1
        distances = self.relative_positions.unsqueeze(-3) if batched else self.relative_positions
        seen = pattern.at(distances, self.key_positions.unsqueeze(-2) if batched else self.key_positions)
        return seen if self.ancestors is None else tree_mask(seen, self.ancestors)


@dataclass(kw_only=True)
class DecoderState:
    """What any decoder carries from step to step: the number of columns read, and the empty ones of each sequence.

    `length` is an int, or a tensor on the device so that shapes never change and nothing waits for the host. With
    `all_logits` a run returns logits after each new token, otherwise after the last one only.
    """

    length: int | Tensor = 0
    padding: Tensor | None = None
    all_logits: bool = False

    @property
    def count(self) -> int:
        """Columns read so far, as a number."""
        return int(self.length)

    def advance(self, new: int) -> None:
        """Count columns that have been read; a negative number forgets the last ones."""
        if isinstance(self.length, Tensor):
            self.length.add_(new)
        else:
            self.length += new

    def positions(self, new: int, device: torch.device) -> Tensor:
        """Positions [new] or [batch, new] of the next columns; those of padding are negative."""
        columns = self.length + torch.arange(new, device=device)
        return columns if self.padding is None else columns - self.padding[:, None]

    def longest(self, new: int) -> int:
        """Length of the longest sequence once the next columns are read."""
        empty = 0 if self.padding is None or not len(self.padding) else int(self.padding.min())
        return self.count + new - empty

    def select(self, rows: Tensor) -> None:
        """Take these sequences in this order."""
        if self.padding is not None:
            self.padding = self.padding[rows]


@dataclass(kw_only=True)
class KVCache(DecoderState):
    """Keys and values of every block: `self_kv` of its own tokens, `cross_kv` of the encoder output."""

    self_kv: list[LayerKV]
    window: int | None = None
    cross_kv: list[LayerKV] = field(default_factory=list)
    source_mask: Tensor | None = None

    @property
    def slots(self) -> int:
        """Number of tokens of a sequence that fit."""
        return self.self_kv[0].keys.shape[-2]

    def attention_context(self, new: int) -> AttentionContext:
        """The context in which attention reads the next columns."""
        device, slots = self.self_kv[0].keys.device, self.slots
        positions = self.positions(new, device)
        if isinstance(self.length, Tensor):
            last, read, plain = self.length + (new - 1), slots, False
        else:
            last = self.length + new - 1
            self._check_capacity(new)
            read, plain = min(last + 1, slots), self.padding is None and last < slots
        columns = positions if self.padding is None else self.length + torch.arange(new, device=device)
        if plain:
            return AttentionContext(positions, columns, read, None, self.count)
        # the newest column that a slot can hold; below zero where it holds none yet
        held = last - (last - torch.arange(read, device=device)) % slots
        keys = held if self.padding is None else held - self.padding[:, None]
        return AttentionContext(positions, columns % slots, read, keys)

    def _check_capacity(self, new: int) -> None:
        if self.window is None and self.count + new > self.slots:
            raise ModelError(f"the cache has {self.slots} slots, wanted {self.count + new}: make a larger one")
        if self.window is not None and self.count + new > self.slots and new > self.slots - self.window + 1:
            most = self.slots - self.window + 1
            raise ModelError(f"{new} tokens at once, wanted at most {most} through a window: give them in parts")

    def select(self, rows: Tensor) -> None:
        """Take these sequences in this order, each with its source."""
        for slots in self.self_kv + self.cross_kv:
            slots.select(rows)
        if self.source_mask is not None:
            self.source_mask = self.source_mask[rows]
        super().select(rows)


def left_padded(rows: Sequence[Sequence[int]], filler: int, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Sequences as one tensor, padded on the left, and the number of padding columns of each."""
    width = max(map(len, rows))
    ids = torch.tensor([[filler] * (width - len(row)) + list(row) for row in rows], device=device)
    empty = [width - len(row) for row in rows]
    return ids, torch.tensor(empty, device=device) if any(empty) else None
