"""KV cache for beam search: a tree of hypotheses in one cache.

A step writes one column for every beam of a sequence, side by side. `ancestors` marks which columns belong to each
beam; when beams are dropped or duplicated only the marks move, never keys or values. The prompt is stored once.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.errors import ModelError
from glassformer.layers.cache import (
    AttentionContext,
    DecoderState,
    KVCache,
    LayerKV,
)  # fmt: skip
from glassformer.layers.recurrent_state import RecurrentBeamState, RecurrentState

GRAIN = 32  # slots are a multiple of this: products are fast, and calls of similar length share a program


@dataclass(kw_only=True)
class BeamCache(KVCache):
    """Keys and values of sequences and their beams; `length` counts steps.

    The first `prompt_slots` are shared by all beams. `columns` [slots] is the column of a sequence that a slot holds or
    will hold, negative for none, and `ancestors` [batch, beams, slots] is true where a slot belongs to a beam. Nothing
    is discarded, not even behind a window.
    """

    beams: int
    prompt_slots: int
    columns: Tensor
    ancestors: Tensor

    def begin(self, past: KVCache) -> None:
        """Continue from the end of a cache whose keys and values lie in the first slots, shared by all beams."""
        slot, last = torch.arange(self.slots, device=self.columns.device), past.count - 1
        held = torch.where(slot < min(past.count, past.slots), last - (last - slot) % past.slots, -1)
        self.columns.copy_(
            torch.where(slot < self.prompt_slots, held, past.count + (slot - self.prompt_slots) // self.beams)
        )
        self.ancestors.copy_(slot < self.prompt_slots)
        self.length *= 0

    def attention_context(self, new: int) -> AttentionContext:
        """The context in which attention reads the next token of every beam."""
        start = self.prompt_slots + self.length * self.beams
        known = not isinstance(start, Tensor)
        if known and start + self.beams > self.slots:
            room = (self.slots - self.prompt_slots) // self.beams
            raise ModelError(f"the beam cache has room for {room} steps, wanted {self.count + 1}: make more")
        at = start + torch.arange(self.beams, device=self.ancestors.device)
        self._mark(self.ancestors | (at[:, None] == torch.arange(self.slots, device=self.ancestors.device)))
        read = round_up(start + self.beams, GRAIN) if known else self.slots
        positions, columns, ancestors = self.columns[at], self.columns[:read], self.ancestors[:, None, :, :read]
        if self.padding is not None:
            positions, columns = positions - self.padding[:, None], columns - self.padding[:, None]
        return AttentionContext(positions, at, read, columns, start if known else None, ancestors)

    def longest(self, new: int) -> int:
        """Length of the longest sequence once every beam has read its next token."""
        return int(self.columns[self.prompt_slots]) + super().longest(1)

    def advance(self, new: int) -> None:
        """Count a column that every beam has read."""
        super().advance(1)

    def follow(self, parents: Tensor) -> None:
        """Every beam continues from what its parent [batch, beams] has read."""
        self._mark(self.ancestors.gather(1, parents[..., None].expand_as(self.ancestors)))

    def _mark(self, lines: Tensor) -> None:
        """Replace the ancestor marks; compiled code writes in place."""
        if torch.compiler.is_compiling():
            self.ancestors.copy_(lines)
        else:
            self.ancestors = lines

    def select(self, rows: Tensor) -> None:
        """Select these sequences in this order, each with its source and its beams."""
        self.ancestors = self.ancestors[rows]
        super().select(rows)


def expand_beams(state: DecoderState, beams: int, steps: int) -> BeamCache | RecurrentBeamState:
    """A decoder state expanded to `beams` hypotheses per sequence, for up to `steps` steps."""
    if isinstance(state, KVCache):
        return expand_cache(state, beams, steps)
    if not isinstance(state, RecurrentState):
        raise ModelError(f"beam search cannot expand a {type(state).__name__}, wanted a KVCache or a RecurrentState")
    every = [None if cell is None else tuple(part.repeat_interleave(beams, 0) for part in cell) for cell in state.cells]
    return RecurrentBeamState(cells=every, beams=beams)  # padding has been read by now


def expand_cache(cache: KVCache, beams: int, steps: int) -> BeamCache:
    """A KV cache expanded to beams: the prompt is stored once, and there is room for what the beams will add."""
    device, rows = cache.self_kv[0].keys.device, len(cache.self_kv[0].keys)
    shared, held = prompt_slots_of(cache), min(cache.count, cache.slots)
    slots = shared + round_up(beams * steps, GRAIN)

    def stretched(store: Tensor) -> Tensor:
        longer = store.new_zeros(*store.shape[:2], slots, store.shape[3])
        longer[:, :, :held] = store[:, :, :held]
        return longer

    branches = BeamCache(
        padding=cache.padding,
        all_logits=True,
        self_kv=[LayerKV(stretched(own.keys), stretched(own.values)) for own in cache.self_kv],
        cross_kv=cache.cross_kv,
        source_mask=cache.source_mask,
        beams=beams,
        prompt_slots=shared,
        columns=torch.empty(slots, dtype=torch.long, device=device),
        ancestors=torch.empty(rows, beams, slots, dtype=torch.bool, device=device),
    )
    branches.begin(cache)
    return branches


def prompt_slots_of(cache: KVCache) -> int:
    """Number of slots that the prompt takes once its sequences are expanded."""
    return round_up(min(cache.count, cache.slots), GRAIN)


def round_up(size: int, grain: int) -> int:
    """The next multiple of `grain`."""
    return -(-size // grain) * grain
