"""Batches of windows over one long row of token ids, and the same with masked tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64, Integer

from glassformer.data.batches import IGNORE, Batch, Batches, Plan, Rows, generator, require_rows, sample_stride
from glassformer.errors import DataError


class PackedBatches(Batches):
    """Windows over one long row of ids: `ids` [batch, length], and as `targets` the same one token further.

    Windows begin at another offset in each epoch. `once` has every id but the first as a target, the last ones in a
    shorter window.
    """

    def __init__(
        self, tokens: Integer[np.ndarray, " tokens"], batch: int, length: int, seed: int, rank: int = 0, world: int = 1
    ) -> None:
        super().__init__(seed, rank, world)
        require_rows(batch, world)
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
        yield self.tokens[:: sample_stride(len(self.tokens))]  # pyright: ignore[reportReturnType] - an array will do

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
        ids, targets = self._masked(self._windows(rows, self._length(rows)), generator(self.seed, epoch, index))
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
