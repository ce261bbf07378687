"""What a decoder remembers from step to step, so that no token is worked out twice.

Sequences of a batch end together: shorter ones begin with empty columns, counted by `padding`. So all of them
write their next token into the same slot, and only masks and places differ. Where attention reaches back a
limited number of places the slots are a ring: column c lies in slot c modulo their number.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from glassformer.equations.cache import write_slots
from glassformer.equations.heads import slice_axis
from glassformer.equations.masks import relative_positions, tree_mask
from glassformer.errors import ModelError
from glassformer.layers.patterns import Bidirectional


@dataclass
class LayerKV:
    """Keys and values [batch, groups, slots, head_dim] of one attention."""

    keys: Tensor
    values: Tensor

    def write(self, key: Tensor, value: Tensor, at: Tensor) -> None:
        """Put new keys and values into their slots; compiled, this happens in place and is all there is to do."""
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
    """New tokens on their way through the blocks: where they stand, where they are kept, what they may see.

    `start` is the first of their slots, given where a run may go straight through; `lines` is true where a slot is
    on the line of a token, where tokens go on from one past in several ways.
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
        self._masks: dict[Bidirectional, Tensor] = {}

    def mask(self, pattern: Bidirectional) -> Tensor:
        """True where the new tokens may look; worked out once for all blocks with the same pattern."""
        if torch.compiler.is_compiling():  # the compiler finds what is worked out twice by itself
            return self._mask(pattern)
        if pattern not in self._masks:
            self._masks[pattern] = self._mask(pattern)
        return self._masks[pattern]

    def _mask(self, pattern: Bidirectional) -> Tensor:
        assert self.key_positions is not None and self.relative_positions is not None
        batched = self.key_positions.dim() > 1
        distances = self.relative_positions.unsqueeze(-3) if batched else self.relative_positions
        seen = pattern.at(distances, self.key_positions.unsqueeze(-2) if batched else self.key_positions)
        return seen if self.ancestors is None else tree_mask(seen, self.ancestors)


@dataclass(kw_only=True)
class DecoderState:
    """What any decoder carries on: how many columns it has read, and how many of each sequence's were empty.

    `filled` is a number, or one in a tensor on the device: then shapes never change and nothing waits for the host.
    With `every`, a run gives scores after each new token, else after the last alone.
    """

    length: int | Tensor = 0
    padding: Tensor | None = None
    all_logits: bool = False

    @property
    def count(self) -> int:
        """Columns read so far, as a number."""
        return int(self.length)

    def advance(self, new: int) -> None:
        """Count columns that have been read, or with a negative number forget the last ones."""
        if isinstance(self.length, Tensor):
            self.length.add_(new)
        else:
            self.length += new

    def positions(self, new: int, device: torch.device) -> Tensor:
        """Places [new] or [batch, new] of the next columns; those of padding are negative."""
        columns = self.length + torch.arange(new, device=device)
        return columns if self.padding is None else columns - self.padding[:, None]

    def longest(self, new: int) -> int:
        """How many places the longest sequence takes up once the next columns are read."""
        empty = 0 if self.padding is None or not len(self.padding) else int(self.padding.min())
        return self.count + new - empty

    def select(self, rows: Tensor) -> None:
        """Take these sequences in this order."""
        if self.padding is not None:
            self.padding = self.padding[rows]


@dataclass(kw_only=True)
class KVCache(DecoderState):
    """Keys and values of every block: of its own tokens, and of a source where there is one."""

    self_kv: list[LayerKV]
    window: int | None = None
    cross_kv: list[LayerKV] = field(default_factory=list)
    source_mask: Tensor | None = None

    @property
    def slots(self) -> int:
        """How many tokens of a sequence there is room for."""
        return self.self_kv[0].keys.shape[-2]

    def attention_context(self, new: int) -> AttentionContext:
        """What attention must know to read the next columns."""
        device, slots = self.self_kv[0].keys.device, self.slots
        places = self.positions(new, device)
        if isinstance(self.length, Tensor):
            last, read, plain = self.length + (new - 1), slots, False
        else:
            last = self.length + new - 1
            self._check_capacity(new)
            read, plain = min(last + 1, slots), self.padding is None and last < slots
        columns = places if self.padding is None else self.length + torch.arange(new, device=device)
        if plain:
            return AttentionContext(places, columns, read, None, self.count)
        # the newest column that a slot can hold; below zero where it holds none yet
        held = last - (last - torch.arange(read, device=device)) % slots
        keys = held if self.padding is None else held - self.padding[:, None]
        return AttentionContext(places, columns % slots, read, keys)

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


@dataclass(kw_only=True)
class RecurrentState(DecoderState):
    """What a recurrent network carries on: for every layer the tensors of its cell, none before the first token."""

    cells: list[tuple[Tensor, ...] | None]

    def select(self, rows: Tensor) -> None:
        """Take these sequences in this order."""
        self.cells = [None if cell is None else tuple(part[rows] for part in cell) for cell in self.cells]
        super().select(rows)


def left_padded(rows: Sequence[Sequence[int]], filler: int, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Sequences as one tensor that ends with each one's last token, and how many columns each leaves empty."""
    width = max(map(len, rows))
    ids = torch.tensor([[filler] * (width - len(row)) + list(row) for row in rows], device=device)
    empty = [width - len(row) for row in rows]
    return ids, torch.tensor(empty, device=device) if any(empty) else None


def right_padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Sequences as one tensor, and which of its entries are real; an empty one gets one token to attend to."""
    width = max(1, *map(len, rows))
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=device)
    lengths = torch.tensor([max(1, len(row)) for row in rows], device=device)
    return ids, torch.arange(width, device=device) < lengths[:, None]
