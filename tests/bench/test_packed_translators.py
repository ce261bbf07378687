"""`glassformer bench translate` on packed rows: the same pairs as in padded ones."""

from dataclasses import replace

import pytest

from glassformer.bench.translators import ROWS, random_pairs
from glassformer.cli.main import main
from glassformer.data.batches import IGNORE
from glassformer.data.packed_pairs import PackedPairBatches, unpacked
from glassformer.data.padded_batches import PairBatches


def test_packed_rows_hold_the_pairs_of_a_padded_batch() -> None:
    row = ROWS["packed"]
    pairs = random_pairs(replace(row, pairs=3200), seed=0)
    kinds = (kind(pairs, row.rows * row.length, 0, 0, 1, 0) for kind in (PackedPairBatches, PairBatches))
    packed, padded = (next(batches) for batches in kinds)
    assert packed["target"].shape == (1, row.rows * row.length)
    assert (packed["targets"] != IGNORE).sum() == (padded["targets"] != IGNORE).sum() == row.rows * row.length
    assert {tuple(source) for source in unpacked(packed)["source"].tolist()} <= {tuple(source) for source, _ in pairs}


def test_packed_rows_are_left_out_where_no_kernel_reads_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "translate", "--only", "packed", "--device", "cpu"]) == 0
    assert "packed is left out" in capsys.readouterr().err
