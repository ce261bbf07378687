"""Batches of pairs without padding between them: all sources in one row, all targets in another, of fixed lengths."""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import torch
from jaxtyping import Int, Int64

from glassformer.data.batches import IGNORE, Batch, Plan, Rows
from glassformer.data.padded_batches import PairBatches, padded

GRAIN = 64  # the lengths of rows are multiples of it, as kernels like them
ROOM = 1.25  # for more pairs in a row than there are on average
BOUNDS = ("source_bounds", "target_bounds")


class PackedPairBatches(PairBatches):
    """Pairs packed into rows that have the same shape in every batch: `source`, `target` and `targets` [1, length].

    `source_bounds` and `target_bounds` [1, bounds] say where each pair begins; after the last pair come documents of
    padding, empty ones at the end. The longer row has room for `tokens_per_batch`. What is left at the end of an epoch
    does not fill a batch and is shuffled with the rest for the next one. Each process gets a row with its part of the
    pairs. One pass in order (`once`) is padded, as of `PairBatches`.
    """

    def __init__(
        self,
        pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
        tokens_per_batch: int,
        pad: int,
        decoder_start: int,
        eos: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        super().__init__(pairs, tokens_per_batch, pad, decoder_start, eos, seed, rank, world)
        longest = self.longest = int(self._sides.max())
        sides = self._sources, self._targets
        larger = max(float(side.mean()) for side in sides)
        self._rooms = [max(tokens_per_batch * float(side.mean()) / larger, int(side.max())) for side in sides]
        self._rooms = [_rounded(room) for room in self._rooms]
        self._pairs_at_most = _rounded(ROOM * max(self._rooms) / larger)
        # A part ends where a pair does, and its two sides are uneven by a pair at either end (see `_balanced`).
        self.lengths = self._rooms if world == 1 else [_rounded(n / world + 3 * longest + GRAIN) for n in self._rooms]
        self._bounds = self._pairs_at_most + -(-max(self.lengths) // longest) + 1
        self._flat_sources = _flat((source for source, _ in pairs), int(self._sources.sum()))
        written = ((decoder_start, *target, eos) for _, target in pairs)
        self._flat_targets = _flat(written, int((self._targets + 1).sum()))
        self._source_starts, self._target_starts = (np.cumsum(n) - n for n in (self._sources, self._targets + 1))

    def settings(self) -> dict[str, int]:
        """The same, and that pairs are packed."""
        return super().settings() | {"packed": 1}

    def once(self) -> Iterator[Batch]:
        """One pass in the order of the data, padded."""
        for index, rows in enumerate(self._in_order()):
            yield super()._make(rows, 0, index)

    def _shuffled(self, random: np.random.Generator) -> Plan:
        batches = self._filled(self._balanced(random.permutation(len(self.pairs))))
        return batches[:-1] or batches

    def _balanced(self, order: Rows) -> Rows:
        """Pairs whose sources are longer and pairs whose targets are, in turn, so that both rows fill up together."""
        ratio = float(self._sources.sum()) / float(self._targets.sum())
        excess = self._sources[order] - ratio * self._targets[order]
        more, less = (np.cumsum(np.maximum(side, 0)) for side in (excess, -excess))
        return order[np.argsort(np.where(excess > 0, more, less), kind="stable")]

    def _filled(self, order: Rows) -> list[Rows]:
        """The pairs of each batch: as many as fit, in this order."""
        totals = [np.concatenate([[0], np.cumsum(side[order])]) for side in (self._sources, self._targets)]
        batches, first = [], 0
        while first < len(order):
            sides = zip(totals, self._rooms, strict=True)
            full = (int(np.searchsorted(total, total[first] + room, "right")) - 1 for total, room in sides)
            end = min(*full, first + self._pairs_at_most)
            batches.append(order[first:end])
            first = end
        return batches

    def _part(self, rows: Rows) -> Rows:
        """This process's pairs of a batch: about as many tokens as those of any other."""
        done = [np.cumsum(side[rows]) / side[rows].sum() for side in (self._sources, self._targets)]
        parts = np.ceil(np.maximum(*done) * self.world) - 1
        return rows[np.clip(parts, 0, self.world - 1) == self.rank]

    def _make(self, rows: Rows, epoch: int, index: int) -> Batch:
        mine, (source, target) = self._part(rows), self.lengths
        read, written = self._sources[mine], self._targets[mine]
        sources = _joined(self._source_starts[mine], read)
        targets = _joined(self._target_starts[mine], written)
        return {
            "source": _row(self._flat_sources[sources], source, self.pad),
            "target": _row(self._flat_targets[targets], target, self.pad),
            "targets": _row(self._flat_targets[targets + 1], target, IGNORE),
            "source_bounds": self._bounds_of(read, source),
            "target_bounds": self._bounds_of(written, target),
        }

    def _bounds_of(self, lengths: Rows, room: int) -> torch.Tensor:
        """Bounds of the pairs of a row and of the padding after them."""
        found, ends = np.full((1, self._bounds), room, dtype=np.int32), np.cumsum(lengths)
        end, count = int(lengths.sum()), len(lengths)
        padding = np.arange(end, room, self.longest)
        found[0, 0], found[0, 1 : count + 1] = 0, ends
        found[0, count : count + len(padding)] = padding
        return torch.from_numpy(found)


def unpacked(batch: Batch) -> Batch:
    """A packed batch as a padded one of the same pairs; any other batch as it is."""
    if BOUNDS[0] not in batch:
        return batch
    device = batch["source"].device
    rows = zip(*(batch[name].cpu() for name in ("source", "target", "targets", *BOUNDS)), strict=True)
    sources, targets, wanted = zip(*(pair for row in rows for pair in _pairs(*row)), strict=True)
    lengths = torch.tensor([len(source) for source in sources])
    length, written = int(lengths.max()), max(map(len, targets))
    found = {
        "source": padded(sources, length, 0),
        "attention_mask": torch.arange(length) < lengths[:, None],
        "target": padded(targets, written, 0),
        "targets": padded(wanted, written, IGNORE),
    }
    return {name: part.to(device) for name, part in found.items()}


def packed_tokens(batch: Batch) -> int:
    """The tokens of a packed batch on both sides, without padding."""
    found = int((batch["targets"] != IGNORE).sum())
    for row, bounds in enumerate(batch["source_bounds"]):
        found += int(bounds[_pair_count(batch["targets"][row], batch["target_bounds"][row])])
    return found


def _pair_count(targets: torch.Tensor, bounds: torch.Tensor) -> int:
    """The number of pairs of a row: documents with a target, which come before those of padding."""
    starts = bounds[:-1][bounds[:-1] < bounds[1:]].long()
    return int((targets[starts] != IGNORE).sum())


def _pairs(
    source: torch.Tensor, target: torch.Tensor, targets: torch.Tensor, begun: torch.Tensor, bounds: torch.Tensor
) -> Iterator[tuple[list[int], list[int], list[int]]]:
    """Source, target and targets of each pair of a row."""
    for at in range(_pair_count(targets, bounds)):
        read, written = slice(int(begun[at]), int(begun[at + 1])), slice(int(bounds[at]), int(bounds[at + 1]))
        yield source[read].tolist(), target[written].tolist(), targets[written].tolist()


def _rounded(length: float) -> int:
    """The next multiple of the grain."""
    return -(-int(np.ceil(length)) // GRAIN) * GRAIN


def _flat(rows: Iterator[Sequence[int]], count: int) -> Int[np.ndarray, " tokens"]:
    """All rows after one another."""
    return np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=count)


def _joined(starts: Rows, lengths: Rows) -> Int64[np.ndarray, " tokens"]:
    """The indices of pieces with these starts and lengths, after one another."""
    return np.arange(lengths.sum()) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)


def _row(ids: Int[np.ndarray, " tokens"], length: int, fill: int) -> torch.Tensor:
    """Ids as a row of this length, filled up."""
    found = np.full((1, length), fill, dtype=np.int64)
    found[0, : len(ids)] = ids
    return torch.from_numpy(found)
