"""Batches come in an order that seed and epoch decide, from any position, for any number of processes."""

import random
from collections import Counter
from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from glassformer.data.batches import IGNORE, Batch, Batches
from glassformer.data.packed_batches import MaskedBatches, Masking, PackedBatches
from glassformer.data.packed_pairs import PackedPairBatches
from glassformer.data.padded_batches import LabeledBatches, PairBatches
from glassformer.data.prefetched import Prefetched
from glassformer.errors import DataError

PAD, START, END, MASK = 0, 1, 2, 4
TOKENS = np.arange(5, 505, dtype=np.uint16)
MASKING = Masking(mask=MASK, vocab=600, specials=frozenset(range(5)))


def sentences(count: int, seed: int = 0) -> list[list[int]]:
    drawn = random.Random(seed)
    return [[drawn.randrange(5, 600) for _ in range(drawn.randint(1, 20))] for _ in range(count)]


PAIRS = list(zip(sentences(101), sentences(101, 1), strict=True))
TEXTS = sentences(101, 2)
LABELS = [number % 7 for number in range(101)]

Make = Callable[..., Batches]
ALL: dict[str, Make] = {
    "packed": lambda seed=0, rank=0, world=1: PackedBatches(TOKENS, 6, 8, seed, rank, world),
    "masked": lambda seed=0, rank=0, world=1: MaskedBatches(TOKENS, 6, 8, MASKING, seed, rank, world),
    "pairs": lambda seed=0, rank=0, world=1: PairBatches(PAIRS, 150, PAD, START, END, seed, rank, world),
    "labeled": lambda seed=0, rank=0, world=1: LabeledBatches(TEXTS, LABELS, 8, PAD, seed, rank, world),
    "packed pairs": lambda seed=0, rank=0, world=1: PackedPairBatches(PAIRS, 150, PAD, START, END, seed, rank, world),
    "prefetched": lambda seed=0, rank=0, world=1: Prefetched(ALL["pairs"](seed, rank, world), ahead=2),
}
EVERY = pytest.mark.parametrize("name", ALL)


def same(one: Batch, other: Batch) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def epoch(batches: Batches, number: int = 0) -> list[Batch]:
    """All batches of one epoch."""
    found = []
    while batches.state()["epoch"] <= number:
        before = batches.state()
        batch = next(batches)
        if batches.state()["epoch"] == number:
            found.append(batch)
        if batches.state()["epoch"] > number:
            batches.resume(before)
            break
    return found


# The same questions, asked of every kind.


@EVERY
def test_the_order_depends_on_seed_and_epoch_alone(name: str) -> None:
    first, again, other = ALL[name](3), ALL[name](3), ALL[name](4)
    one = epoch(first)
    assert all(map(same, one, epoch(again)))
    assert not all(map(same, one, epoch(other)))
    assert not all(map(same, one, epoch(first, 1)))
    far = ALL[name](3)
    far.resume(far.state() | {"epoch": 7})
    walked = ALL[name](3)
    for number in range(7):
        epoch(walked, number)
    assert all(map(same, epoch(far, 7), epoch(walked, 7)))


@EVERY
def test_stopped_anywhere_and_resumed_is_never_stopped(name: str) -> None:
    drawn = random.Random(5)
    source = ALL[name](1)
    states, unbroken = [source.state()], []
    for batch in islice(source, 80):
        unbroken.append(batch)
        states.append(source.state())
    borders = [at for at, state in enumerate(states) if state["index"] <= 1]
    assert len(borders) > 3, "some stops are at the border of two epochs"
    for stop in [*borders, *(at - 1 for at in borders if at), *drawn.sample(range(80), 10)]:
        target = ALL[name](1)
        for _ in islice(target, drawn.randrange(5)):
            pass
        target.resume(states[stop])
        assert target.state() == states[stop]
        assert all(map(same, islice(target, 20), unbroken[stop:]))


@pytest.mark.parametrize("name", [name for name in ALL if name != "packed pairs"])
@pytest.mark.parametrize("world", [2, 3])
def test_the_parts_of_all_processes_are_the_batch(name: str, world: int) -> None:
    alone = ALL[name]()
    parts = [ALL[name](0, rank, world) for rank in range(world)]
    for whole in islice(alone, 60):
        parts_of_batch = [next(part) for part in parts]
        assert all(len(tensor) for part in parts_of_batch for tensor in part.values()), "nobody is without work"
        assert same(woven(parts_of_batch), whole)
    for whole, *parts_of_batch in zip(alone.once(), *(part.once() for part in parts), strict=True):
        assert same(woven(parts_of_batch), whole)
    assert parts[1].state() == alone.state(), "another number of processes can go on from here"


def woven(parts_of_batch: list[Batch]) -> Batch:
    def weave(tensors: list[Tensor]) -> Tensor:
        rows = [tensors[at % len(tensors)][at // len(tensors)] for at in range(sum(map(len, tensors)))]
        return torch.stack(rows)

    return {name: weave([part[name] for part in parts_of_batch]) for name in parts_of_batch[0]}


@EVERY
def test_once_is_the_same_every_time_and_moves_nothing(name: str) -> None:
    batches = ALL[name]()
    next(batches)
    state = batches.state()
    first = list(batches.once())
    assert batches.state() == state
    assert all(map(same, first, batches.once()))


@EVERY
def test_first_is_the_beginning_of_training_and_moves_nothing(name: str) -> None:
    batches = ALL[name]()
    epoch(batches)
    next(batches)
    state = batches.state()
    first = list(batches.first(3))
    assert batches.state() == state
    assert len(first) == min(3, len(epoch(ALL[name]())))
    assert all(map(same, first, ALL[name]()))
    assert len(list(batches.first(10_000))) == len(epoch(ALL[name]()))


@EVERY
def test_batches_are_made_on_the_cpu_wherever_torch_puts_new_tensors(name: str) -> None:
    wanted = next(ALL[name]())
    with torch.device("meta"):
        assert same(next(ALL[name]()), wanted)


@EVERY
def test_tensors_are_whole_and_of_one_kind(name: str) -> None:
    batch = next(ALL[name](0, 1, 2))
    for key, tensor in batch.items():
        kinds = {"attention_mask": torch.bool, "source_bounds": torch.int32, "target_bounds": torch.int32}
        assert tensor.dtype == kinds.get(key, torch.int64)
        assert tensor.is_contiguous()
        assert len(tensor) == len(next(iter(batch.values())))


@EVERY
def test_a_place_that_is_not_here_is_an_error(name: str) -> None:
    batches = ALL[name](1)
    state = batches.state()
    for key in state:
        with pytest.raises(DataError, match=f"has no '{key}'"):
            batches.resume({other: value for other, value in state.items() if other != key})
        if key not in ("epoch", "index"):
            says = f"is for {key} {state[key] + 1}, here {key} is {state[key]}"
            if key in ("pairs", "texts", "tokens", "checksum"):
                says = rf"^the data has changed since the run began \({key} {state[key] + 1}, now {state[key]}\): put"
            with pytest.raises(DataError, match=says):
                batches.resume(state | {key: state[key] + 1})
    for wrong in ({"epoch": -1}, {"index": -1}, {"index": 10**6}):
        with pytest.raises(DataError, match="which does not exist"):
            batches.resume(state | wrong)
    assert batches.state() == state
    assert all(type(value) is int for value in state.values()), "so that it can be written as JSON"


def test_data_of_the_same_counts_is_known_by_what_it_says() -> None:
    made = {
        "packed": lambda ids: PackedBatches(np.array(ids * 9), 2, 3, 0),
        "pairs": lambda ids: PairBatches([(ids, ids[::-1])] * 4, 64, 0, 1, 2, 0),
        "labeled": lambda ids: LabeledBatches([ids] * 4, [0, 1, 0, 1], 2, 0, 0),
    }
    for make in made.values():
        state = make([3, 4, 5]).state()
        make([3, 4, 5]).resume(state)
        with pytest.raises(DataError, match="the data has changed since the run began"):
            make([3, 5, 4]).resume(state)
    with pytest.raises(DataError, match="the data has changed"):
        LabeledBatches([[3]] * 4, [0, 1, 0, 1], 2, 0, 0).resume(
            LabeledBatches([[3]] * 4, [0, 1, 1, 0], 2, 0, 0).state()
        )


@EVERY
@pytest.mark.parametrize(("seed", "rank", "world"), [(-1, 0, 1), (0, 1, 1), (0, -1, 1), (0, 2, 2), (0, 0, 0)])
def test_a_wrong_seed_or_rank_is_an_error(name: str, seed: int, rank: int, world: int) -> None:
    with pytest.raises(DataError, match="seed is -1" if seed < 0 else f"rank is {rank} of {world}"):
        ALL[name](seed, rank, world)


@EVERY
def test_more_processes_than_rows_is_an_error(name: str) -> None:
    with pytest.raises(DataError, match="wanted at least"):
        ALL[name](0, 0, 200)


# Each kind by itself.


def test_packed_targets_are_one_further() -> None:
    batches = PackedBatches(TOKENS, 6, 8, seed=0)
    starts = set()
    for batch in islice(batches, 50):
        assert batch["ids"].shape == batch["targets"].shape == (6, 8)
        assert torch.equal(batch["ids"] + 1, batch["targets"]), "the tokens here count up"
        assert torch.equal(batch["ids"] - batch["ids"][:, :1], torch.arange(8).expand(6, 8))
        starts |= {int(start) % 8 for start in batch["ids"][:, 0]}
    assert len(starts) > 3, "windows begin at other offsets in other epochs"


def test_packed_gives_each_window_once_an_epoch() -> None:
    for number in range(5):
        batches = PackedBatches(TOKENS, 6, 8, seed=0)
        batches.resume(batches.state() | {"epoch": number})
        targets = Counter(torch.cat([batch["targets"].flatten() for batch in epoch(batches, number)]).tolist())
        assert set(targets.values()) == {1}
        assert len(targets) > len(TOKENS) - 8 - 6 * 8 - 1, "less than a batch and a window are left out"


@given(tokens=st.integers(2, 200), batch=st.integers(1, 5), length=st.integers(1, 20))
def test_packed_once_has_every_token_but_the_first(tokens: int, batch: int, length: int) -> None:
    row = np.arange(tokens, dtype=np.uint32)
    if tokens <= batch * length:
        with pytest.raises(DataError, match=f"{tokens} tokens, wanted at least {batch * length + 1}"):
            PackedBatches(row, batch, length, seed=0)
        return
    batches = PackedBatches(row, batch, length, seed=0)
    found = [batch["targets"].flatten() for batch in batches.once()]
    assert torch.cat(found).tolist() == list(range(1, tokens))
    assert next(batches)["ids"].shape == (batch, length)


def test_packed_wants_a_length() -> None:
    with pytest.raises(DataError, match="length is 0"):
        PackedBatches(TOKENS, 6, 0, seed=0)


def test_masked_hides_what_it_says_it_does() -> None:
    tokens = np.random.default_rng(0).integers(0, 600, 40_000).astype(np.uint16)
    batches = MaskedBatches(tokens, 16, 100, MASKING, seed=0)
    plain = PackedBatches(tokens, 16, 100, seed=0)
    fates: Counter[str] = Counter()
    for batch, whole in zip(islice(batches, 24), plain, strict=False):
        ids, targets, before = batch["ids"], batch["targets"], whole["ids"]
        chosen = targets != IGNORE
        assert torch.equal(targets[chosen], before[chosen])
        assert torch.equal(ids[~chosen], before[~chosen])
        assert not (before[chosen] < 5).any(), "special tokens are not hidden"
        wanted = (0.15 * (before >= 5).sum(1)).round()
        assert torch.equal(chosen.sum(1).float(), wanted)
        fates["masked"] += int((ids[chosen] == MASK).sum())
        fates["kept"] += int((ids[chosen] == before[chosen]).sum())
        assert not (ids[chosen & (ids != MASK) & (ids != before)] < 5).any(), "nothing is replaced by a special token"
        fates["all"] += int(chosen.sum())
    assert fates["masked"] / fates["all"] == pytest.approx(0.8, abs=0.02)
    assert fates["kept"] / fates["all"] == pytest.approx(0.1, abs=0.02)


def test_masked_hides_other_tokens_in_other_epochs_and_batches() -> None:
    same_everywhere = np.full(500, 7, dtype=np.uint16)
    batches = MaskedBatches(same_everywhere, 6, 8, MASKING, seed=0)
    positions = [tuple((batch["targets"] != IGNORE).flatten().tolist()) for batch in islice(batches, 60)]
    assert len(set(positions)) == 60
    short = MaskedBatches(np.full(50, 7, dtype=np.uint16), 2, 3, MASKING, seed=0)
    assert all(((batch["targets"] != IGNORE).sum(1) == 1).all() for batch in short.once()), "at least one of each row"


def test_masked_needs_something_to_hide() -> None:
    with pytest.raises(DataError, match="all 5 tokens are special"):
        MaskedBatches(TOKENS, 6, 8, Masking(mask=4, vocab=5, specials=frozenset(range(5))), seed=0)
    only_specials = MaskedBatches(np.zeros(100, dtype=np.uint16), 2, 8, MASKING, seed=0)
    assert (next(only_specials)["targets"] == IGNORE).all()


def unpadded(batch: Batch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The pairs of a batch, as they were before."""
    found = []
    for source, keep, target, targets in zip(*batch.values(), strict=True):
        assert keep.int().diff().le(0).all(), "padding comes last"
        assert (source[~keep] == PAD).all()
        length = int((targets != IGNORE).sum())
        assert target[0] == START
        assert targets[length - 1] == END
        assert torch.equal(target[1:length], targets[: length - 1])
        assert (target[length:] == PAD).all()
        assert (targets[length:] == IGNORE).all()
        found.append((tuple(source[keep].tolist()), tuple(targets[: length - 1].tolist())))
    return found


@example(lengths=[(1, 1), (1, 1), (1, 15)], room=31, seed=0)  # the last two batches, shared evenly, would not fit
@given(
    lengths=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60),
    room=st.integers(31, 200),
    seed=st.integers(0, 9),
)
def test_pairs_all_come_once_an_epoch_and_fit(lengths: list[tuple[int, int]], room: int, seed: int) -> None:
    pairs = [(tuple(range(5, 5 + one)), tuple(range(50, 50 + other))) for one, other in lengths]
    batches = PairBatches(pairs, room, PAD, START, END, seed)
    for order in (epoch(batches), list(batches.once())):
        for batch in order:
            assert batch["source"].numel() <= room
            assert batch["target"].numel() <= room
        assert Counter(pair for batch in order for pair in unpadded(batch)) == Counter(pairs)
    in_order = [pair for batch in batches.once() for pair in unpadded(batch)]
    assert in_order == pairs, "for validation the order given"


def test_pairs_of_one_length_are_together_so_that_little_is_padding() -> None:
    batches = PairBatches(PAIRS * 20, 400, PAD, START, END, seed=0)
    order = epoch(batches)
    cells = sum(batch["source"].numel() + batch["target"].numel() for batch in order)
    used = sum(int(batch["attention_mask"].sum() + (batch["targets"] != IGNORE).sum()) for batch in order)
    padding = 1 - used / cells
    assert padding < 0.25
    shuffled = sum(batch["source"].numel() + batch["target"].numel() for batch in batches.once())
    assert padding < (1 - used / shuffled) * 0.75, "sorting pays"
    alike = PairBatches([([5, 6], [7])] * 40, 20, PAD, START, END, seed=0)
    assert all(batch["attention_mask"].all() and (batch["targets"] != IGNORE).all() for batch in epoch(alike))


def test_pairs_have_no_tiny_last_batch() -> None:
    for count in range(1, 60):
        batches = PairBatches([([5] * 9, [6] * 9)] * count, 100, PAD, START, END, seed=0)
        sizes = sorted(len(batch["source"]) for batch in epoch(batches))
        assert sum(sizes) == count
        assert sizes[0] >= min(count, 5)
        assert sizes[-1] <= 10


@pytest.mark.parametrize("world", [1, 2, 3])
def test_pairs_leave_no_process_without_work(world: int) -> None:
    least = 10 * (2 * world - 1)
    for count in range(world, 40):
        parts = [PairBatches([([5] * 9, [6] * 9)] * count, least, PAD, START, END, 0, r, world) for r in range(world)]
        assert all(len(batch["source"]) for part in parts for batch in epoch(part))
    with pytest.raises(DataError, match=f"tokens_per_batch is {least - 1}, wanted at least {least}"):
        PairBatches([([5] * 9, [6] * 9)] * 20, least - 1, PAD, START, END, 0, 0, world)


def test_short_and_long_batches_come_mixed() -> None:
    for batches in (PairBatches(PAIRS * 5, 150, PAD, START, END, 0), ALL["labeled"]()):
        lengths = [
            max(tensor.shape[-1] for key, tensor in batch.items() if key != "labels") for batch in epoch(batches)
        ]
        assert lengths not in (sorted(lengths), sorted(lengths)[::-1])


def test_bad_pairs_are_an_error() -> None:
    for pairs, room, message in [
        ([], 100, "no data to make batches of"),
        ([([5], [6]), ([], [6])], 100, "the source of pair 1 has no tokens"),
        ([([5], [])], 100, "the target of pair 0 has no tokens"),
        ([([5], [6]), ([5] * 10, [6])], 9, "tokens_per_batch is 9, wanted at least 10: pair 1 has 10 tokens"),
        ([([5], [6] * 10)], 10, "tokens_per_batch is 10, wanted at least 11: pair 0 has 11 tokens"),
    ]:
        with pytest.raises(DataError, match=message):
            PairBatches(pairs, room, PAD, START, END, seed=0)


def test_labeled_texts_keep_their_labels() -> None:
    batches = LabeledBatches(TEXTS, LABELS, 8, PAD, seed=0)
    known = dict(zip(map(tuple, TEXTS), LABELS, strict=True))
    seen: Counter[tuple[int, ...]] = Counter()
    for batch in epoch(batches):
        assert len(batch["ids"]) == 8
        for ids, keep, label in zip(*batch.values(), strict=True):
            assert (ids[~keep] == PAD).all()
            text = tuple(ids[keep].tolist())
            assert known[text] == label
            seen[text] += 1
    assert set(seen.values()) == {1}
    assert sum(seen.values()) == 96, "less than a batch is left out"
    once = [label for batch in batches.once() for label in batch["labels"].tolist()]
    assert once == LABELS


def test_little_of_labeled_batches_is_padding() -> None:
    texts = sentences(800)
    batches = LabeledBatches(texts, [0] * 800, 8, PAD, seed=0)
    order = epoch(batches)
    cells = sum(batch["ids"].numel() for batch in order)
    assert 1 - sum(int(batch["attention_mask"].sum()) for batch in order) / cells < 0.05
    few = LabeledBatches(texts[:3], [0, 1, 2], 8, PAD, seed=0)
    assert sorted(next(few)["labels"].tolist()) == [0, 1, 2], "all there are, where there are few"


def test_bad_labeled_texts_are_an_error() -> None:
    with pytest.raises(DataError, match="2 texts and 1 labels"):
        LabeledBatches([[5], [6]], [0], 8, PAD, seed=0)
    with pytest.raises(DataError, match="text 1 has no tokens"):
        LabeledBatches([[5], []], [0, 1], 8, PAD, seed=0)
    with pytest.raises(DataError, match="no data"):
        LabeledBatches([], [], 8, PAD, seed=0)


def test_labeled_batches_have_few_shapes() -> None:
    texts = [[1] * size for size in range(1, 121) for _ in range(8)]
    batches = LabeledBatches(texts, [0] * len(texts), 8, PAD, seed=0)
    lengths = {batch["ids"].shape[1] for batch in epoch(batches)}
    assert len(lengths) <= 40 and max(lengths) == 120, "no longer than the longest text"
