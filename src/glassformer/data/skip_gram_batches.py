"""Batches of word pairs for skip-gram: windows of random size, fewer frequent words, noise words as negatives."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64, Integer

from glassformer.data.batches import Batch, Batches, Plan, Rows, generator, require_rows, sample_stride
from glassformer.errors import DataError

Tokens = Integer[np.ndarray, " tokens"]


@dataclass(frozen=True, kw_only=True)
class NegativeSampling:
    """How pairs and negatives are drawn: the window, the negatives of a pair, and what follows from the vocabulary.

    `keep` is the probability that an occurrence of each word is kept, 0 for special tokens; `noise` the distribution of
    negatives. `end` is the token that ends a document, which no window reaches beyond.
    """

    window: int
    negatives: int
    keep: Float64[np.ndarray, " vocab"]
    noise: Float64[np.ndarray, " vocab"]
    end: int | None = None

    @cached_property
    def _columns(self) -> tuple[Float64[np.ndarray, " vocab"], Int64[np.ndarray, " vocab"]]:
        """Walker's alias table (1977): equal columns, each with a word up to some height and one other above it."""
        heights = self.noise * (len(self.noise) / self.noise.sum())
        others = np.arange(len(heights))
        low, high = [list(np.flatnonzero(part)) for part in (heights < 1, heights >= 1)]
        while low and high:
            short, tall = low.pop(), high[-1]
            others[short] = tall
            heights[tall] -= 1 - heights[short]
            if heights[tall] < 1:
                low.append(high.pop())
        return heights, others

    def draw(self, random: np.random.Generator, pairs: int) -> Int64[np.ndarray, "pairs negatives"]:
        """Noise words for each pair: a column, and one of its two words, from one random number each."""
        heights, others = self._columns
        drawn = random.random((pairs, self.negatives)) * len(heights)
        column = drawn.astype(np.int64)
        return np.where(drawn - column < heights[column], column, others[column])


class SkipGramBatches(Batches):
    """Pairs of words that stand near each other: `centers` [pairs, 1] and `candidates` [pairs, 1 + negatives].

    The first candidate stood in the window of the center, the others are drawn. In each epoch other occurrences of
    frequent words are left out, before windows are made, and each window has another size of at most `window` words to
    either side. All of it depends only on seed, epoch and batch. Centers are shuffled; the pairs of a center stay
    together.
    """

    def __init__(
        self, tokens: Tokens, pairs_per_batch: int, sampling: NegativeSampling, seed: int, rank: int = 0, world: int = 1
    ) -> None:
        super().__init__(seed, rank, world)
        require_rows(pairs_per_batch, world)
        self.tokens, self.pairs_per_batch, self.sampling = tokens, pairs_per_batch, sampling

    def settings(self) -> dict[str, int]:
        """Tokens, pairs of a batch, window and negatives."""
        sizes = {"tokens": len(self.tokens), "pairs_per_batch": self.pairs_per_batch}
        return {**sizes, "window": self.sampling.window, "negatives": self.sampling.negatives}

    def _sample(self) -> Iterator[Sequence[int]]:
        yield self.tokens[:: sample_stride(len(self.tokens))]  # pyright: ignore[reportReturnType] - an array will do

    def _shuffled(self, random: np.random.Generator) -> Plan:
        windows = self._windows(random)
        return PairPlan(windows, random.permutation(len(windows.positions)), self.pairs_per_batch)

    def _in_order(self) -> Plan:
        windows = self._windows(generator(self.seed, 0))
        return PairPlan(windows, np.arange(len(windows.positions)), self.pairs_per_batch, whole=False)

    def _windows(self, random: np.random.Generator) -> "Windows":
        """The occurrences that are kept in an epoch, and the size of the window around each."""
        kept = random.random(len(self.tokens)) < self.sampling.keep[self.tokens]
        found = Windows.of(self.tokens, kept, self.sampling, random)
        if not found.pairs:
            words = f"{len(found.positions)} of {len(self.tokens)} tokens are words that are kept"
            raise DataError(f"no two words stand near each other: {words}; add text, or raise data.subsample")
        return found

    def _make(self, rows: Rows, epoch: int, index: int) -> Batch:
        # Negatives are drawn for the whole batch before it is sharded, so that the number of processes changes nothing.
        noise = self.sampling.draw(generator(self.seed, epoch, index), len(rows))
        center, near = np.divmod(rows, len(self.tokens))
        candidates = np.concatenate([self.tokens[near][:, None], noise], 1, dtype=np.int64)
        parts = {"centers": self.tokens[center][:, None].astype(np.int64), "candidates": candidates}
        return {name: torch.from_numpy(part[self.rank :: self.world]) for name, part in parts.items()}


@dataclass(frozen=True)
class Windows:
    """Positions of the words that are kept, and how many of them belong to the window on either side of each."""

    positions: Rows
    left: Rows
    right: Rows
    length: int  # of the text, in tokens

    @property
    def pairs(self) -> int:
        """The number of pairs of a word and a word of its window."""
        return int(self.left.sum() + self.right.sum())

    @classmethod
    def of(
        cls, tokens: Tokens, kept: Bool[np.ndarray, " tokens"], sampling: NegativeSampling, random: np.random.Generator
    ) -> "Windows":
        """Windows of 1 to `window` words to either side, all sizes equally likely, within a document."""
        positions = np.flatnonzero(kept)
        reach = random.integers(1, sampling.window + 1, len(positions))
        ends = np.flatnonzero(tokens == sampling.end) if sampling.end is not None else np.empty(0, dtype=np.int64)
        document = ends.searchsorted(positions)
        order = np.arange(len(positions))
        first, last = document.searchsorted(document), document.searchsorted(document, side="right") - 1
        return cls(positions, np.minimum(reach, order - first), np.minimum(reach, last - order), len(tokens))


class PairPlan(Sequence[Rows]):
    """The pairs of each batch, worked out when the batch is made; a pair is center · length + neighbor, as positions.

    Where `whole`, pairs that do not fill a batch are left out, if there is another one.
    """

    def __init__(self, windows: Windows, order: Rows, pairs_per_batch: int, whole: bool = True) -> None:
        self.windows, self.order, self.pairs_per_batch = windows, order, pairs_per_batch
        self.ends = np.cumsum(windows.left[order] + windows.right[order])
        batches = windows.pairs / pairs_per_batch
        self.batches = max(int(batches), 1) if whole else int(np.ceil(batches))

    def __len__(self) -> int:
        return self.batches

    @overload
    def __getitem__(self, index: int) -> Rows: ...
    @overload
    def __getitem__(self, index: slice) -> "Sequence[Rows]": ...
    def __getitem__(self, index: int | slice) -> "Rows | Sequence[Rows]":
        if isinstance(index, slice):
            return [self._pairs(number) for number in range(*index.indices(self.batches))]
        if not 0 <= index < self.batches:
            raise IndexError(f"batch {index} of {self.batches}")
        return self._pairs(index)

    def _pairs(self, number: int) -> Rows:
        first = number * self.pairs_per_batch
        last = min(first + self.pairs_per_batch, int(self.ends[-1]))
        begin, end = self.ends.searchsorted([first, last - 1], side="right")  # the first center, and the last
        here = slice(begin, end + 1)
        centers, ends = self.order[here], self.ends[here]
        left = self.windows.left[centers]
        counts = left + self.windows.right[centers]
        start = int(ends[0] - counts[0])  # pairs before the first center
        offset = np.arange(start, ends[-1]) - np.repeat(ends - counts + left, counts)
        offset += offset >= 0  # a word is not its own neighbor
        repeated = np.repeat(centers, counts)
        positions = self.windows.positions
        pairs = positions[repeated] * self.windows.length + positions[repeated + offset]
        return pairs[first - start : last - start]
