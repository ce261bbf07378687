"""Batches of conversations, padded to the longest, in which only replies are targets."""

from collections.abc import Iterator, Sequence

from glassformer.data.batches import IGNORE, Batch, Rows, sample_stride
from glassformer.data.padded_batches import LabeledBatches, padded


class ReplyBatches(LabeledBatches):
    """Conversations as ids with padding: `ids`, their `attention_mask`, and `targets`, the same one token further.

    Targets that do not belong to a reply are ignored. A row is its ids, and for each whether it belongs to a reply.
    """

    def __init__(
        self,
        rows: Sequence[tuple[Sequence[int], Sequence[bool]]],
        batch: int,
        pad: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        super().__init__([ids[:-1] for ids, _ in rows], [0] * len(rows), batch, pad, seed, rank, world)
        self.targets = [
            [id if counts else IGNORE for id, counts in zip(ids[1:], is_reply[1:], strict=True)]
            for ids, is_reply in rows
        ]

    def _sample(self) -> Iterator[Sequence[int]]:
        yield from super()._sample()
        yield from self.targets[:: sample_stride(len(self.targets))]

    def _make(self, rows: Rows, epoch: int, index: int) -> Batch:
        batch = super()._make(rows, epoch, index)
        mine = rows[self.rank :: self.world]
        targets = padded([self.targets[row] for row in mine], batch["ids"].shape[1], IGNORE)
        return {"ids": batch["ids"], "attention_mask": batch["attention_mask"], "targets": targets}
