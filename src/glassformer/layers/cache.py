"""What a decoder remembers from step to step, so that no token is worked out twice.

Sequences of a batch end together: shorter ones begin with empty columns, counted by `padding`. So all of them
write their next token into the same slot, and only masks and places differ. Where attention reaches back a
limited number of places the slots are a ring: column c lies in slot c modulo their number.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from glassformer.equations.places import cut_rows, own_line, relative_places, write_rows
from glassformer.errors import ModelError
from glassformer.layers.patterns import Everything


@dataclass
class Slots:
    """Keys and values [batch, groups, slots, head_dim] of one attention."""

    keys: Tensor
    values: Tensor

    def write(self, key: Tensor, value: Tensor, at: Tensor) -> None:
        """Put new keys and values into their slots; compiled, this happens in place and is all there is to do."""
        keys, values = write_rows(self.keys, key, at), write_rows(self.values, value, at)
        if not torch.compiler.is_compiling():
            self.keys, self.values = keys, values

    def read(self, count: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the first slots."""
        if count == self.keys.shape[-2]:
            return self.keys, self.values
        return cut_rows(self.keys, 0, count), cut_rows(self.values, 0, count)

    def select(self, rows: Tensor) -> None:
        """Take these sequences in this order."""
        self.keys, self.values = self.keys[rows], self.values[rows]


class Moment:
    """New tokens on their way through the blocks: where they stand, where they are kept, what they may see.

    `start` is the first of their slots, given where a run may go straight through; `lines` is true where a slot is
    on the line of a token, where tokens go on from one past in several ways.
    """

    def __init__(
        self,
        places: Tensor,
        at: Tensor,
        read: int,
        keys: Tensor | None,
        start: int | None = None,
        lines: Tensor | None = None,
    ) -> None:
        self.places = places
        self.at = at
        self.read = read
        self.keys = keys
        self.start = start
        self.lines = lines
        self.distances = None if keys is None else relative_places(places, keys)
        self._masks: dict[Everything, Tensor] = {}

    def mask(self, pattern: Everything) -> Tensor:
        """True where the new tokens may look; worked out once for all blocks with the same pattern."""
        if torch.compiler.is_compiling():  # the compiler finds what is worked out twice by itself
            return self._mask(pattern)
        if pattern not in self._masks:
            self._masks[pattern] = self._mask(pattern)
        return self._masks[pattern]

    def _mask(self, pattern: Everything) -> Tensor:
        assert self.keys is not None and self.distances is not None
        batched = self.keys.dim() > 1
        distances = self.distances.unsqueeze(-3) if batched else self.distances
        seen = pattern.at(distances, self.keys.unsqueeze(-2) if batched else self.keys)
        return seen if self.lines is None else own_line(seen, self.lines)


@dataclass(kw_only=True)
class Memory:
    """What any decoder carries on: how many columns it has read, and how many of each sequence's were empty.

    `filled` is a number, or one in a tensor on the device: then shapes never change and nothing waits for the host.
    With `every`, a run gives scores after each new token, else after the last alone.
    """

    filled: int | Tensor = 0
    padding: Tensor | None = None
    every: bool = False

    @property
    def count(self) -> int:
        """Columns read so far, as a number."""
        return int(self.filled)

    def advance(self, new: int) -> None:
        """Count columns that have been read, or with a negative number forget the last ones."""
        if isinstance(self.filled, Tensor):
            self.filled.add_(new)
        else:
            self.filled += new

    def places(self, new: int, device: torch.device) -> Tensor:
        """Places [new] or [batch, new] of the next columns; those of padding are negative."""
        columns = self.filled + torch.arange(new, device=device)
        return columns if self.padding is None else columns - self.padding[:, None]

    def furthest(self, new: int) -> int:
        """How many places the longest sequence takes up once the next columns are read."""
        empty = 0 if self.padding is None or not len(self.padding) else int(self.padding.min())
        return self.count + new - empty

    def select(self, rows: Tensor) -> None:
        """Take these sequences in this order."""
        if self.padding is not None:
            self.padding = self.padding[rows]


@dataclass(kw_only=True)
class Cache(Memory):
    """Keys and values of every block: of its own tokens, and of a source where there is one."""

    own: list[Slots]
    reach: int | None = None
    cross: list[Slots] = field(default_factory=list)
    source_mask: Tensor | None = None

    @property
    def slots(self) -> int:
        """How many tokens of a sequence there is room for."""
        return self.own[0].keys.shape[-2]

    def moment(self, new: int) -> Moment:
        """What attention must know to read the next columns."""
        device, slots = self.own[0].keys.device, self.slots
        places = self.places(new, device)
        if isinstance(self.filled, Tensor):
            last, read, plain = self.filled + (new - 1), slots, False
        else:
            last = self.filled + new - 1
            self._check_room(new)
            read, plain = min(last + 1, slots), self.padding is None and last < slots
        columns = places if self.padding is None else self.filled + torch.arange(new, device=device)
        if plain:
            return Moment(places, columns, read, None, self.count)
        # the newest column that a slot can hold; below zero where it holds none yet
        held = last - (last - torch.arange(read, device=device)) % slots
        keys = held if self.padding is None else held - self.padding[:, None]
        return Moment(places, columns % slots, read, keys)

    def _check_room(self, new: int) -> None:
        if self.reach is None and self.count + new > self.slots:
            raise ModelError(f"the cache has {self.slots} slots, wanted {self.count + new}: make a larger one")
        if self.reach is not None and self.count + new > self.slots and new > self.slots - self.reach + 1:
            most = self.slots - self.reach + 1
            raise ModelError(f"{new} tokens at once, wanted at most {most} through a window: give them in parts")

    def select(self, rows: Tensor) -> None:
        """Take these sequences in this order, each with its source."""
        for slots in self.own + self.cross:
            slots.select(rows)
        if self.source_mask is not None:
            self.source_mask = self.source_mask[rows]
        super().select(rows)


@dataclass(kw_only=True)
class RecurrentState(Memory):
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
