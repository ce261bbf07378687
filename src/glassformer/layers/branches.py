"""A cache whose sequences go on in several ways at once: all that was written stays, and each way knows its line.

A step writes a column for every way of a sequence, side by side. Which columns a way goes on from is a row of marks;
when ways are dropped and others go on twice the marks move, and no key or value does. What came before the ways is
kept once for all of them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.errors import ModelError
from glassformer.layers.cache import Cache, Moment, RecurrentState, Slots

GRAIN = 32  # slots come in multiples of this, for which products are fast and calls of like length share a program


@dataclass(kw_only=True)
class Branches(Cache):
    """Keys and values of sequences and their ways; `filled` counts the steps of all ways.

    The first slots are `shared` by all ways. `columns` [slots] says which column of a sequence a slot holds or will
    hold, below zero where nothing of the past lies, and `lines` [batch, ways, slots] is true where a slot is on the
    line of a way. Nothing is forgotten, not even behind a window.
    """

    ways: int
    shared: int
    columns: Tensor
    lines: Tensor

    def begin(self, past: Cache) -> None:
        """Count and mark from where a cache ends, whose keys and values lie in the first slots: all ways share them."""
        slot, last = torch.arange(self.slots, device=self.columns.device), past.count - 1
        held = torch.where(slot < min(past.count, past.slots), last - (last - slot) % past.slots, -1)
        self.columns.copy_(torch.where(slot < self.shared, held, past.count + (slot - self.shared) // self.ways))
        self.lines.copy_(slot < self.shared)
        self.filled *= 0

    def moment(self, new: int) -> Moment:
        """What attention must know to read the next token of every way."""
        start = self.shared + self.filled * self.ways
        known = not isinstance(start, Tensor)
        if known and start + self.ways > self.slots:
            room = (self.slots - self.shared) // self.ways
            raise ModelError(f"the branches have room for {room} steps, wanted {self.count + 1}: make more")
        at = start + torch.arange(self.ways, device=self.lines.device)
        self._mark(self.lines | (at[:, None] == torch.arange(self.slots, device=self.lines.device)))
        read = round_up(start + self.ways, GRAIN) if known else self.slots
        places, columns = self.columns[at], self.columns[:read]
        if self.padding is not None:
            places, columns = places - self.padding[:, None], columns - self.padding[:, None]
        return Moment(places, at, read, columns, start if known else None, self.lines[:, None, :, :read])

    def furthest(self, new: int) -> int:
        """How many places the longest sequence takes up once every way has read its next token."""
        return int(self.columns[self.shared]) + super().furthest(1)

    def advance(self, new: int) -> None:
        """Count a column that every way has read."""
        super().advance(1)

    def follow(self, parents: Tensor) -> None:
        """Every way goes on from what its parent [batch, ways] has read."""
        self._mark(self.lines.gather(1, parents[..., None].expand_as(self.lines)))

    def _mark(self, lines: Tensor) -> None:
        """Take over new marks; compiled, in place."""
        if torch.compiler.is_compiling():
            self.lines.copy_(lines)
        else:
            self.lines = lines

    def select(self, rows: Tensor) -> None:
        """Take these sequences in this order, each with its source and its ways."""
        self.lines = self.lines[rows]
        super().select(rows)


@dataclass(kw_only=True)
class RecurrentBranches(RecurrentState):
    """What a recurrent network carries on for every way of its sequences, those of one side by side."""

    ways: int

    def follow(self, parents: Tensor) -> None:
        """Every way goes on from the state of its parent [batch, ways]."""
        self._take(torch.arange(len(parents), device=parents.device), parents)

    def select(self, rows: Tensor) -> None:
        """Take these sequences in this order, each with its ways."""
        self._take(rows, torch.arange(self.ways, device=rows.device))

    def _take(self, rows: Tensor, ways: Tensor) -> None:
        super().select((rows[:, None] * self.ways + ways).flatten())


def branched(memory: Cache | RecurrentState, ways: int, steps: int) -> Branches | RecurrentBranches:
    """What a memory holds, to go on from in so many ways for so many steps."""
    if isinstance(memory, Cache):
        return branched_cache(memory, ways, steps)
    every = [None if cell is None else tuple(part.repeat_interleave(ways, 0) for part in cell) for cell in memory.cells]
    return RecurrentBranches(cells=every, ways=ways)  # padding has been read by now


def branched_cache(cache: Cache, ways: int, steps: int) -> Branches:
    """What a cache holds, kept once, with room for what its ways will add."""
    device, rows = cache.own[0].keys.device, len(cache.own[0].keys)
    shared, held = shared_slots(cache), min(cache.count, cache.slots)
    slots = shared + round_up(ways * steps, GRAIN)

    def stretched(store: Tensor) -> Tensor:
        wide = store.new_zeros(*store.shape[:2], slots, store.shape[3])
        wide[:, :, :held] = store[:, :, :held]
        return wide

    branches = Branches(
        padding=cache.padding,
        every=True,
        own=[Slots(stretched(own.keys), stretched(own.values)) for own in cache.own],
        cross=cache.cross,
        source_mask=cache.source_mask,
        ways=ways,
        shared=shared,
        columns=torch.empty(slots, dtype=torch.long, device=device),
        lines=torch.empty(rows, ways, slots, dtype=torch.bool, device=device),
    )
    branches.begin(cache)
    return branches


def shared_slots(cache: Cache) -> int:
    """How many slots what a cache holds takes up once its sequences branch."""
    return round_up(min(cache.count, cache.slots), GRAIN)


def round_up(size: int, grain: int) -> int:
    """The next multiple of a grain."""
    return -(-size // grain) * grain
