"""Batches of pairs and of labeled texts, padded to the longest."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from glassformer.data.batches import IGNORE, WEIGHTS, Batch, Batches, Plan, Rows, require_rows, sample_stride
from glassformer.errors import DataError

POOL = 50  # batches that are sorted by length together
SHAPES = 8  # lengths from one power of two to the next that batches of labeled texts are padded to


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
        self._sources = token_counts([source for source, _ in pairs], "the source of pair")
        self._targets = token_counts([target for _, target in pairs], "the target of pair") + 1
        self._sides = np.maximum(self._sources, self._targets)
        require_rows(len(pairs), world)
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
        return (side for pair in self.pairs[:: sample_stride(len(self.pairs))] for side in pair)

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
        source = padded([source for source, _ in mine], sources, self.pad)
        lengths = torch.from_numpy(self._sources[rows[self.rank :: self.world]])
        return {
            "source": source,
            "attention_mask": torch.arange(sources, device=lengths.device) < lengths[:, None],
            "target": padded([[self.decoder_start, *target] for _, target in mine], targets, self.pad),
            "targets": padded([[*target, self.eos] for _, target in mine], targets, IGNORE),
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
        self._lengths = token_counts(texts, "text")
        self.batch = min(batch, len(texts))
        require_rows(self.batch, world)

    def settings(self) -> dict[str, int]:
        """Texts, their tokens and the batch."""
        return {"texts": len(self.texts), "tokens": int(self._lengths.sum()), "batch": self.batch}

    def _sample(self) -> Iterator[Sequence[int]]:
        stride = sample_stride(len(self.texts))
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
            "ids": padded([self.texts[row] for row in mine], length, self.pad),
            "attention_mask": torch.arange(length, device=lengths.device) < lengths[:, None],
            "labels": labels,
            **weights,
        }


class SpanBatches(LabeledBatches):
    """Questions with a window of their context: `ids`, `attention_mask`, `token_types`, and `labels` [batch, 2].

    The labels are the first and the last position of the answer.
    """

    def __init__(
        self,
        texts: Sequence[Sequence[int]],
        token_types: Sequence[Sequence[int]],
        spans: Sequence[tuple[int, int]],
        batch: int,
        pad: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        super().__init__(texts, spans, batch, pad, seed, rank, world)  # pyright: ignore[reportArgumentType] - pairs
        self.token_types = token_types

    def _make(self, rows: Rows, epoch: int, index: int) -> Batch:
        batch = super()._make(rows, epoch, index)
        types = [self.token_types[row] for row in rows[self.rank :: self.world]]
        return batch | {"token_types": padded(types, batch["ids"].shape[1], 0)}


def token_counts(rows: Sequence[Sequence[int]], name: str) -> Rows:
    """The number of tokens of each row; raises if one has none."""
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


def padded(rows: Sequence[Sequence[int]], length: int, fill: int) -> Tensor:
    """Rows of token ids as one tensor, filled up to a length."""
    found = np.full((len(rows), length), fill, dtype=np.int64)
    for row, ids in zip(found, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(found)
