"""Pairs of words: every one of them is near, none is lost, and all depends only on seed, epoch and batch."""

from collections import Counter

import numpy as np
import pytest
import torch

from glassformer.data.skip_gram_batches import NegativeSampling, SkipGramBatches
from glassformer.errors import DataError

VOCAB, END = 12, 0
WORDS = 1 + np.arange(60) % (VOCAB - 1)
DOCUMENTS = np.where(np.arange(60) % 20 == 19, END, WORDS)


def sampling(window: int = 3, negatives: int = 2, keep: float = 1.0, **more: object) -> NegativeSampling:
    chances = np.full(VOCAB, keep)
    chances[END] = 0
    noise = np.arange(VOCAB, dtype=np.float64)  # the token that ends a document is never drawn
    values = {"keep": chances, "noise": noise, "end": END, **more}
    return NegativeSampling(window=window, negatives=negatives, **values)  # pyright: ignore[reportArgumentType]


def made(tokens: np.ndarray = DOCUMENTS, pairs: int = 8, seed: int = 0, **more: object) -> SkipGramBatches:
    return SkipGramBatches(tokens, pairs, sampling(**more), seed)  # pyright: ignore[reportArgumentType]


def positions(batches: SkipGramBatches, epoch: int = 0) -> list[tuple[int, int]]:
    rows = np.concatenate([*batches._plan(epoch)])
    return list(zip(*(part.tolist() for part in np.divmod(rows, len(batches.tokens))), strict=True))


def test_pairs_are_near_within_a_document_and_never_of_a_word_with_itself() -> None:
    batches = made(pairs=1)
    for epoch in range(3):
        found = positions(batches, epoch)
        assert len(set(found)) == len(found) > 60
        for center, near in found:
            assert 1 <= abs(center - near) <= 3 and center // 20 == near // 20
            assert DOCUMENTS[center] != END and DOCUMENTS[near] != END


def test_a_window_of_one_word_gives_every_neighbor_once() -> None:
    inside = [at for at in range(60) if DOCUMENTS[at] != END]
    wanted = {(a, b) for a in inside for b in (a - 1, a + 1) if b in inside and a // 20 == b // 20}
    batches = made(pairs=1, window=1)
    assert set(positions(batches)) == wanted and len(positions(batches)) == len(wanted)


def test_near_words_are_paired_more_often_than_far_ones() -> None:
    batches = made(np.ones(3000, dtype=np.int64), pairs=1, window=3)
    counts = Counter(abs(center - near) for center, near in positions(batches))
    assert counts[1] / counts[3] == pytest.approx(3, rel=0.1) and counts[2] / counts[3] == pytest.approx(2, rel=0.1)


def test_subsampling_leaves_words_out_before_windows_are_made() -> None:
    tokens = np.tile([1, 2], 2000)
    chances = np.array([0.0, 1.0, 0.1, *[1.0] * (VOCAB - 3)])
    batches = made(tokens, pairs=1, window=1, keep=1.0)
    assert all(abs(center - near) == 1 for center, near in positions(batches))
    thinned = SkipGramBatches(
        tokens, 1, NegativeSampling(window=1, negatives=1, keep=chances, noise=np.ones(VOCAB)), seed=0
    )
    found = positions(thinned)
    twos = sum(tokens[center] == 2 for center, _ in found)
    assert twos / len(found) == pytest.approx(0.1 / 1.1, rel=0.25)
    assert sum(abs(center - near) == 2 for center, near in found) > len(found) / 2


def test_batches_hold_the_pair_first_and_then_noise_words() -> None:
    batches = made(pairs=16, negatives=5)
    center, near = np.divmod(batches._plan(0)[0], len(DOCUMENTS))
    batch = next(batches)
    assert batch["centers"].tolist() == DOCUMENTS[center][:, None].tolist()
    assert batch["candidates"].shape == (16, 6) and batch["candidates"][:, 0].tolist() == DOCUMENTS[near].tolist()
    assert (batch["candidates"] != END).all() and batch["candidates"].dtype == torch.int64


def test_noise_words_are_drawn_by_their_distribution() -> None:
    how = sampling(negatives=50)
    drawn = how.draw(np.random.default_rng(0), 4000)
    found = np.bincount(drawn.ravel(), minlength=VOCAB) / drawn.size
    assert found == pytest.approx(how.noise / how.noise.sum(), abs=4e-3) and found[END] == 0


def test_the_same_seed_gives_the_same_batches_and_every_epoch_others() -> None:
    one, same, other = made(seed=1), made(seed=1), made(seed=2)
    first = [next(one) for _ in range(40)]
    assert all(torch.equal(a[n], b[n]) for a, b in zip(first, (next(same) for _ in range(40)), strict=True) for n in a)
    assert not torch.equal(first[0]["centers"], next(other)["centers"])
    assert positions(one, 0) != positions(one, 1)


def test_a_saved_position_goes_on_with_the_same_pairs_and_negatives() -> None:
    batches = made(seed=3)
    for _ in range(25):
        next(batches)
    state = batches.state()
    wanted = [next(batches) for _ in range(30)]
    again = made(seed=3)
    again.resume(state)
    for a, b in zip(wanted, (next(again) for _ in range(30)), strict=True):
        assert torch.equal(a["centers"], b["centers"]) and torch.equal(a["candidates"], b["candidates"])
    with pytest.raises(DataError, match="window"):
        made(seed=3, window=2).resume(state)


def test_processes_share_a_batch_without_changing_it() -> None:
    whole = next(made(pairs=9))
    parts = [next(SkipGramBatches(DOCUMENTS, 9, sampling(), 0, rank, 2)) for rank in (0, 1)]
    for name, value in whole.items():
        assert torch.equal(value[0::2], parts[0][name]) and torch.equal(value[1::2], parts[1][name])


def test_one_pass_in_order_has_every_pair_also_those_that_fill_no_batch() -> None:
    batches = made(pairs=7)
    passes = [torch.cat([batch["centers"] for batch in batches.once()]) for _ in range(2)]
    windows = batches._windows(np.random.default_rng(np.random.SeedSequence(0, spawn_key=(0,))))
    assert torch.equal(*passes) and len(passes[0]) == windows.pairs and len(passes[0]) % 7


def test_a_text_without_neighbors_is_refused() -> None:
    with pytest.raises(DataError, match="no two words stand near each other: 1 of 3 tokens are words"):
        next(made(np.array([END, 5, END])))
