"""Pairs packed into rows: every pair whole, all shapes the same, little padding, a part for each process."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.batches import IGNORE, Batch
from glassformer.data.packed_pairs import PackedPairBatches, packed_tokens, unpacked
from glassformer.data.padded_batches import PairBatches
from glassformer.errors import DataError
from tests.data.test_batches import END, PAD, START, epoch, same

Pair = tuple[tuple[int, ...], tuple[int, ...]]


def made(pairs: list[Pair], room: int, seed: int = 0, rank: int = 0, world: int = 1) -> PackedPairBatches:
    return PackedPairBatches(pairs, room, PAD, START, END, seed, rank, world)


def pairs_of(batch: Batch) -> list[Pair]:
    """The pairs of a batch, read off its bounds alone."""
    found = []
    bounds = [batch[name][0].tolist() for name in ("source_bounds", "target_bounds")]
    for first, end, begun, done in zip(bounds[0], bounds[0][1:], bounds[1], bounds[1][1:], strict=False):
        source, target = batch["source"][0, first:end].tolist(), batch["target"][0, begun:done].tolist()
        targets = batch["targets"][0, begun:done].tolist()
        if targets and targets[0] != IGNORE:
            assert target == [START, *targets[:-1]] and targets[-1] == END
            found.append((tuple(source), tuple(targets[:-1])))
        else:
            assert set(source) <= {PAD} and set(target) <= {PAD} and set(targets) <= {IGNORE}
    return found


def drawn_pairs(count: int, seed: int = 0) -> list[Pair]:
    """Pairs of sentences about as long as real ones."""
    chance = np.random.default_rng(seed)
    lengths = np.clip(chance.lognormal(3, 0.45, count), 2, 90).astype(int)
    others = np.clip(lengths * chance.lognormal(0.1, 0.2, count), 2, 90).astype(int)
    return [
        (tuple(chance.integers(5, 900, one).tolist()), tuple(chance.integers(5, 900, other).tolist()))
        for one, other in zip(lengths, others, strict=True)
    ]


@given(
    lengths=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=90),
    room=st.integers(93, 400),
    seed=st.integers(0, 9),
    world=st.sampled_from([1, 1, 2]),
)
def test_pairs_are_whole_and_come_at_most_once_an_epoch(
    lengths: list[tuple[int, int]], room: int, seed: int, world: int
) -> None:
    pairs = [((7 + number,) * one, (8 + number,) * other) for number, (one, other) in enumerate(lengths)]
    if len(pairs) < world:
        return
    parts = [made(pairs, room, seed, rank, world) for rank in range(world)]
    order = [batch for part in parts for batch in epoch(part)]
    found = Counter(pair for batch in order for pair in pairs_of(batch))
    assert not found - Counter(pairs), "each is one of the pairs, and none comes twice"
    left = sum(max(len(one), len(other) + 1) for one, other in (Counter(pairs) - found).elements())
    assert left <= 2 * parts[0].lengths[0] * world + 64, "less than a batch is left"
    for batch in order:
        for side, length in zip(("source", "target"), parts[0].lengths, strict=True):
            bounds = batch[f"{side}_bounds"][0]
            assert bounds[0] == 0 and bounds[-1] == length and bool((bounds.diff() >= 0).all())
            assert int(bounds.diff().max()) <= max(30, parts[0].longest or 0)
            assert batch[side].shape == (1, length)
    padded = PairBatches(pairs, room, PAD, START, END, 0).once()
    assert all(map(same, made(pairs, room).once(), padded)), "an evaluation is padded"


def test_all_batches_of_all_epochs_have_one_shape() -> None:
    batches = made(drawn_pairs(2000), 2048)
    shapes = {tuple((name, part.shape) for name, part in batch.items()) for batch in islice(batches, 90)}
    assert batches.state()["epoch"] >= 2 and len(shapes) == 1


@pytest.mark.parametrize(("room", "world", "most"), [(2048, 1, 0.03), (8192, 1, 0.01), (8192, 2, 0.1)])
def test_little_is_padding(room: int, world: int, most: float) -> None:
    parts = [made(drawn_pairs(6000), room, 0, rank, world) for rank in range(world)]
    portions = [epoch(part) for part in parts]
    order = [batch for portion in portions for batch in portion]
    cells = sum(batch["source"].numel() + batch["target"].numel() for batch in order)
    used = sum(map(packed_tokens, order))
    assert used == sum(len(one) + len(other) + 1 for batch in order for one, other in pairs_of(batch))
    assert 1 - used / cells < most
    each = [sum(map(packed_tokens, portion)) for portion in portions]
    assert max(each) < 1.05 * min(each), "processes have about the same work"


def test_processes_share_the_batches_of_one() -> None:
    alone = made(drawn_pairs(2000), 2048)
    parts = [made(drawn_pairs(2000), 2048, 0, rank, 3) for rank in range(3)]
    for batch in islice(alone, 40):
        shared = [pair for part in parts for pair in pairs_of(next(part))]
        assert shared == pairs_of(batch)
    assert parts[0].state() == alone.state()


def test_a_batch_without_padding_is_as_before() -> None:
    pairs = drawn_pairs(50)
    batch = next(made(pairs, 600))
    plain = unpacked(batch)
    assert unpacked(plain) is plain
    found = [
        (tuple(source[mask].tolist()), tuple(targets[targets != IGNORE][:-1].tolist()))
        for source, mask, targets in zip(plain["source"], plain["attention_mask"], plain["targets"], strict=True)
    ]
    assert found == pairs_of(batch)
    real = plain["targets"] != IGNORE
    assert bool((plain["target"][:, 0] == START).all())
    assert torch.equal(plain["target"][:, 1:][real[:, 1:]], plain["targets"][:, :-1][real[:, 1:]])


def test_a_run_cannot_go_on_from_padded_batches() -> None:
    pairs = drawn_pairs(50)
    with pytest.raises(DataError, match="has no 'packed'"):
        made(pairs, 600).resume(PairBatches(pairs, 600, PAD, START, END, 0).state())
    with pytest.raises(DataError, match="tokens_per_batch is 20, wanted at least"):
        made(pairs, 20)
