"""Endless batches, shuffled, padded or packed, whose position can be saved and resumed."""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Int64, Integer
from torch import Tensor

from glassformer.errors import DataError

Batch = dict[str, Tensor]
Rows = Int64[np.ndarray, " _"]  # the numbers of the rows of a batch
Plan = Sequence[Rows]

IGNORE = -100  # a target that does not count, as in cross_entropy
WEIGHTS = "weights"  # of the targets in the loss; a batch without them weighs all alike
SAMPLED = 2**16  # texts, pairs or tokens in the checksum of the data
POOL = 50  # batches that are sorted by length together
SHAPES = 8  # lengths from one power of two to the next that batches of labeled texts are padded to
OF_THE_DATA = ("pairs", "texts", "tokens", "checksum")  # in an identity; the rest are settings


class Batches(ABC):
    """Endless batches, in an order that depends only on the seed and the epoch.

    `state` returns the position, and `resume` restores it. Of `world` processes each gets every world-th row of the
    same batches, beginning with its `rank`.
    """

    def __init__(self, seed: int, rank: int, world: int) -> None:
        if seed < 0:
            raise DataError(f"seed is {seed}, wanted 0 or more")
        if not 0 <= rank < world:
            raise DataError(f"rank is {rank} of {world}, wanted 0 to {world - 1}")
        self.seed, self.rank, self.world = seed, rank, world
        self._epoch = self._index = 0
        self._planned: tuple[int, Plan] | None = None

    @abstractmethod
    def settings(self) -> dict[str, int]:
        """The sizes that the order depends on; a state can be resumed only where they are the same."""

    @abstractmethod
    def _sample(self) -> Iterator[Sequence[int]]:
        """Ids from all parts of the data."""

    @cached_property
    def _checksum(self) -> int:
        """A checksum of a sample of the data."""
        found = 0
        for ids in self._sample():
            found = zlib.crc32(np.asarray(ids, dtype=np.int64).tobytes(), found)
        return found

    @abstractmethod
    def _shuffled(self, random: np.random.Generator) -> Plan:
        """The rows of each batch of an epoch, shuffled."""

    @abstractmethod
    def _in_order(self) -> Plan:
        """The rows of each batch of one pass, in the order of the data."""

    @abstractmethod
    def _make(self, rows: Rows, epoch: int, index: int) -> Batch:
        """This process's part of a batch."""

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if self._index == len(self._plan(self._epoch)):
            self._epoch, self._index = self._epoch + 1, 0
        batch = self._make(self._plan(self._epoch)[self._index], self._epoch, self._index)
        self._index += 1
        return batch

    def once(self) -> Iterator[Batch]:
        """One pass in the order of the data, for evaluation; the position does not change."""
        for index, rows in enumerate(self._in_order()):
            yield self._make(rows, 0, index)

    def first(self, count: int) -> Iterator[Batch]:
        """The first batches of training, at most one epoch of them; the position does not change."""
        for index, rows in enumerate(self._plan(0)[:count]):
            yield self._make(rows, 0, index)

    def identity(self) -> dict[str, int]:
        """What distinguishes these batches from others: the seed, the sizes, a checksum of the data."""
        return {"seed": self.seed} | self.settings() | {"checksum": self._checksum}

    def state(self) -> dict[str, int]:
        """The position: epoch, index of the next batch in it, and the identity of the data."""
        return {"epoch": self._epoch, "index": self._index} | self.identity()

    def resume(self, state: Mapping[str, int]) -> None:
        """Restore the position of a state."""
        for name in ("epoch", "index"):
            if name not in state:
                raise DataError(f"the position in the data has no {name!r}")
        require_same_data(self.identity(), state)
        epoch, index = state["epoch"], state["index"]
        if epoch < 0 or not 0 <= index <= len(self._plan(epoch)):
            raise DataError(f"the position in the data is batch {index} of epoch {epoch}, which does not exist")
        self._epoch, self._index = epoch, index

    def _plan(self, epoch: int) -> Plan:
        if self._planned is None or self._planned[0] != epoch:
            self._planned = epoch, self._shuffled(_generator(self.seed, epoch))
        return self._planned[1]


class PackedBatches(Batches):
    """Windows over one long row of ids: `ids` [batch, length], and as `targets` the same one token further.

    Windows begin at another offset in each epoch. `once` has every id but the first as a target, the last ones in a
    shorter window.
    """

    def __init__(
        self, tokens: Integer[np.ndarray, " tokens"], batch: int, length: int, seed: int, rank: int = 0, world: int = 1
    ) -> None:
        super().__init__(seed, rank, world)
        _require_rows(batch, world)
        if length < 1:
            raise DataError(f"length is {length}, wanted at least 1")
        if len(tokens) <= batch * length:
            wanted = f"wanted at least {batch * length + 1} for {batch} windows of {length}"
            raise DataError(f"{len(tokens)} tokens, {wanted}")
        self.tokens, self.batch, self.length = tokens, batch, length

    def settings(self) -> dict[str, int]:
        """Tokens, batch and length."""
        return {"tokens": len(self.tokens), "batch": self.batch, "length": self.length}

    def _sample(self) -> Iterator[Sequence[int]]:
        yield self.tokens[:: _stride(len(self.tokens))]  # pyright: ignore[reportReturnType] - an array will do

    def _shuffled(self, random: np.random.Generator) -> Plan:
        last = len(self.tokens) - 1
        start = int(random.integers(min(self.length, last - self.batch * self.length + 1)))
        windows = start + self.length * random.permutation((last - start) // self.length)
        return list(windows[: len(windows) // self.batch * self.batch].reshape(-1, self.batch))

    def _in_order(self) -> Plan:
        starts = np.arange(0, len(self.tokens) - 1, self.length)
        whole = (len(self.tokens) - 1) // self.length
        batches = [starts[at : min(at + self.batch, whole)] for at in range(0, whole, self.batch)]
        return batches if whole == len(starts) else [*batches, starts[-1:]]

    def _make(self, rows: Rows, epoch: int, index: int) -> Batch:
        windows = torch.from_numpy(self._windows(rows[self.rank :: self.world], self._length(rows) + 1))
        return {"ids": windows[:, :-1].contiguous(), "targets": windows[:, 1:].contiguous()}

    def _length(self, rows: Rows) -> int:
        return min(self.length, len(self.tokens) - 1 - int(rows.max()))

    def _windows(self, starts: Rows, length: int) -> Int64[np.ndarray, "_ _"]:
        return self.tokens[starts[:, None] + np.arange(length)].astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class Masking:
    """How tokens are masked (Devlin et al., 2019): the fraction chosen, and how many are masked or replaced."""

    mask: int
    vocab: int
    specials: frozenset[int] = frozenset()
    fraction: float = 0.15
    masked: float = 0.8
    replaced: float = 0.1


class MaskedBatches(PackedBatches):
    """Windows with masked tokens: `ids`, and `targets` that hold the masked ones and ignore the rest.

    Of the tokens chosen, which are never special ones, most become the mask, some another token, some stay. The choice
    depends only on seed, epoch and batch.
    """

    def __init__(
        self,
        tokens: Integer[np.ndarray, " tokens"],
        batch: int,
        length: int,
        masking: Masking,
        seed: int,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        super().__init__(tokens, batch, length, seed, rank, world)
        self.masking = masking
        self._ordinary = np.setdiff1d(np.arange(masking.vocab), list(masking.specials))
        if not len(self._ordinary):
            raise DataError(f"all {masking.vocab} tokens are special, so none can be masked")

    def _make(self, rows: Rows, epoch: int, index: int) -> Batch:
        # The whole batch is masked before it is sharded, so that the number of processes changes nothing.
        ids, targets = self._masked(self._windows(rows, self._length(rows)), _generator(self.seed, epoch, index))
        parts = {"ids": torch.from_numpy(ids), "targets": torch.from_numpy(targets)}
        return {name: part[self.rank :: self.world].contiguous() for name, part in parts.items()}

    def _masked(
        self, ids: Int64[np.ndarray, "rows length"], random: np.random.Generator
    ) -> tuple[Int64[np.ndarray, "rows length"], Int64[np.ndarray, "rows length"]]:
        masking = self.masking
        may = np.isin(ids, self._ordinary)
        count = np.where(may.any(1), np.maximum(np.rint(masking.fraction * may.sum(1)), 1), 0)
        rank = np.where(may, random.random(ids.shape), 1).argsort(1).argsort(1)
        chosen = rank < count[:, None]
        uniform = random.random(ids.shape)
        others = random.choice(self._ordinary, ids.shape)
        masked = np.where(chosen & (uniform < masking.masked), masking.mask, ids)
        masked = np.where(chosen & (uniform >= 1 - masking.replaced), others, masked)
        return masked, np.where(chosen, ids, IGNORE)


class PairBatches(Batches):
    """Pairs of similar length: `source`, its `attention_mask`, `target`, and `targets`, the same one token further.

    A batch holds as many pairs as fit: rows times the longest side, with padding, stay within `tokens_per_batch`.
    `target` begins with the decoder start token; `targets` end with EOS.
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
        super().__init__(seed, rank, world)
        self.pairs, self.tokens_per_batch = pairs, tokens_per_batch
        self.pad, self.decoder_start, self.eos = pad, decoder_start, eos
        self._sources = _lengths([source for source, _ in pairs], "the source of pair")
        self._targets = _lengths([target for _, target in pairs], "the target of pair") + 1
        self._sides = np.maximum(self._sources, self._targets)
        _require_rows(len(pairs), world)
        longest = int(self._sides.argmax())
        least = int(self._sides[longest]) * (2 * world - 1)  # so that half a batch still has a row for each process
        if least > tokens_per_batch:
            why = f"pair {longest} has {self._sides[longest]} tokens"
            raise DataError(f"tokens_per_batch is {tokens_per_batch}, wanted at least {least}: {why}")

    def settings(self) -> dict[str, int]:
        """Pairs, their tokens and the tokens of a batch."""
        tokens = int(self._sources.sum() + self._targets.sum())
        return {"pairs": len(self.pairs), "tokens": tokens, "tokens_per_batch": self.tokens_per_batch}

    def _sample(self) -> Iterator[Sequence[int]]:
        return (side for pair in self.pairs[:: _stride(len(self.pairs))] for side in pair)

    def _shuffled(self, random: np.random.Generator) -> Plan:
        # Pairs of one length are in random order; the longest come first, so each batch is full at its first pair.
        order = random.permutation(len(self.pairs))
        order = order[np.lexsort((self._sources[order], self._sides[order]))[::-1]]
        batches = self._cut(order)
        if len(batches) > 1 and len(batches[-1]) < len(batches[-2]):
            # The last two batches are split evenly: a batch of one or two rows would leave processes without work.
            # Neither half has more or longer pairs than the fuller one had, so both still fit.
            batches[-2:] = np.array_split(np.concatenate(batches[-2:]), 2)
        return [batches[number] for number in random.permutation(len(batches))]

    def _in_order(self) -> Plan:
        return self._cut(np.arange(len(self.pairs)))

    def _cut(self, order: Rows) -> list[Rows]:
        batches, first, longest = [], 0, 0
        for at, side in enumerate(self._sides[order].tolist()):
            longest = max(longest, side)
            if longest * (at - first + 1) > self.tokens_per_batch:
                batches.append(order[first:at])
                first, longest = at, side
        return [*batches, order[first:]]

    def _make(self, rows: Rows, epoch: int, index: int) -> Batch:
        mine = [self.pairs[row] for row in rows[self.rank :: self.world]]
        sources, targets = int(self._sources[rows].max()), int(self._targets[rows].max())
        source = _padded([source for source, _ in mine], sources, self.pad)
        lengths = torch.from_numpy(self._sources[rows[self.rank :: self.world]])
        return {
            "source": source,
            "attention_mask": torch.arange(sources, device=lengths.device) < lengths[:, None],
            "target": _padded([[self.decoder_start, *target] for _, target in mine], targets, self.pad),
            "targets": _padded([[*target, self.eos] for _, target in mine], targets, IGNORE),
        }


class LabeledBatches(Batches):
    """Texts with their labels: `ids` [batch, length], `attention_mask` and `labels`.

    Lengths are padded a little further, as far as the longest text: for every shape of a batch kernels are compiled.
    Where `class_weights` are set, there are also `weights`, that of each text's class.
    """

    class_weights: Tensor | None = None

    def __init__(
        self,
        texts: Sequence[Sequence[int]],
        labels: Sequence[int],
        batch: int,
        pad: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        super().__init__(seed, rank, world)
        if len(texts) != len(labels):
            raise DataError(f"{len(texts)} texts and {len(labels)} labels, wanted the same number")
        self.texts, self.labels, self.pad = texts, np.asarray(labels, dtype=np.int64), pad
        self._lengths = _lengths(texts, "text")
        self.batch = min(batch, len(texts))
        _require_rows(self.batch, world)

    def settings(self) -> dict[str, int]:
        """Texts, their tokens and the batch."""
        return {"texts": len(self.texts), "tokens": int(self._lengths.sum()), "batch": self.batch}

    def _sample(self) -> Iterator[Sequence[int]]:
        stride = _stride(len(self.texts))
        yield from self.texts[::stride]
        yield self.labels[::stride]  # pyright: ignore[reportReturnType] - an array will do

    def _shuffled(self, random: np.random.Generator) -> Plan:
        # Sorted by length only within a pool: a batch of all the shortest texts could be all of one class.
        order = random.permutation(len(self.texts))[: len(self.texts) // self.batch * self.batch]
        pools = [order[at : at + POOL * self.batch] for at in range(0, len(order), POOL * self.batch)]
        order = np.concatenate([pool[np.argsort(self._lengths[pool], kind="stable")] for pool in pools])
        return list(random.permutation(order.reshape(-1, self.batch)))

    def _in_order(self) -> Plan:
        return [np.arange(at, min(at + self.batch, len(self.texts))) for at in range(0, len(self.texts), self.batch)]

    def _make(self, rows: Rows, epoch: int, index: int) -> Batch:
        mine, longest = rows[self.rank :: self.world], int(self._lengths[rows].max())
        length = min(_rounded(longest), int(self._lengths.max()))
        lengths, labels = torch.from_numpy(self._lengths[mine]), torch.from_numpy(self.labels[mine])
        weights = {} if self.class_weights is None else {WEIGHTS: self.class_weights[labels]}
        return {
            "ids": _padded([self.texts[row] for row in mine], length, self.pad),
            "attention_mask": torch.arange(length, device=lengths.device) < lengths[:, None],
            "labels": labels,
            **weights,
        }


def require_same_data(now: Mapping[str, int], before: Mapping[str, int], what: str = "the data") -> None:
    """Raise unless batches have the identity that a checkpoint holds; `what` names the data."""
    for name, here in now.items():
        if name not in before:
            raise DataError(f"the position in {what} has no {name!r}")
        if before[name] != here and name in OF_THE_DATA:
            changed = f"{what} has changed since the run began ({name} {before[name]}, now {here})"
            raise DataError(f"{changed}: put it back as it was, or begin another run")
        if before[name] != here:
            raise DataError(f"the position in {what} is for {name} {before[name]}, here {name} is {here}")


def _generator(seed: int, *key: int) -> np.random.Generator:
    """A separate random generator for every key."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def _require_rows(batch: int, world: int) -> None:
    if batch < world:
        raise DataError(f"a batch of {batch} rows, wanted at least {world}: one for each process")


def _lengths(rows: Sequence[Sequence[int]], name: str) -> Rows:
    if not rows:
        raise DataError("no data to make batches of")
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    if not lengths.all():
        raise DataError(f"{name} {int(lengths.argmin())} has no tokens")
    return lengths


def _rounded(length: int) -> int:
    """The next of the lengths that batches may have: all up to 16, then 18, 20, ... 32, then 36, 40, ... 64."""
    stride = max((1 << (length - 1).bit_length()) // (2 * SHAPES), 1)
    return -(-length // stride) * stride


def _padded(rows: Sequence[Sequence[int]], length: int, fill: int) -> Tensor:
    padded = np.full((len(rows), length), fill, dtype=np.int64)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(padded)


def _stride(count: int) -> int:
    return max(1, count // SAMPLED)
