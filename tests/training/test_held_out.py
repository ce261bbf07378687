"""The held-out loss is the mean over all targets, however they are batched; and it leaves the model as it was."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from glassformer.data.packed_batches import PackedBatches
from glassformer.data.packed_pairs import PackedPairBatches
from glassformer.models.registry import build
from glassformer.training.device import Device
from glassformer.training.held_out import HeldOutLoss
from glassformer.training.objective import NEXT_TOKEN, LossModule
from glassformer.training.text_pairs import NEXT_TARGET_TOKEN
from tests.cases import cases
from tests.training.tiny_run import CONFIG, PAIR_CONFIG, pair_batches, pairs


@cases(30)
@given(tokens=st.lists(st.integers(0, 10), min_size=8, max_size=60), rows=st.integers(1, 6), training=st.booleans())
def test_it_is_the_mean_over_all_targets(tokens: list[int], rows: int, training: bool) -> None:
    model, length = build(CONFIG).double().train(training), 6
    ids = np.array(tokens)
    batches = PackedBatches(ids, min(rows, (len(ids) - 1) // length), length, 0)
    loss = HeldOutLoss(LossModule(model, NEXT_TOKEN).train(training), Device())
    found = [loss(batches), loss(batches)]
    assert model.training == training
    model.eval()
    total = sum(
        float(functional.cross_entropy(model(part[None, :-1])[0], part[1:], reduction="sum").detach())
        for at in range(0, len(ids) - 1, length)
        for part in [torch.from_numpy(ids[at : at + length + 1])]
    )
    torch.testing.assert_close(found, [total / (len(ids) - 1)] * 2, rtol=1e-12, atol=0.0)


@cases(20)
@given(rows=st.integers(1, 4), tokens=st.integers(30, 90))
def test_the_number_of_its_batches_is_known_before(rows: int, tokens: int) -> None:
    packed = PackedPairBatches(pairs(), 60, 0, 1, 2, seed=5)
    for batches in (PackedBatches(np.arange(tokens), rows, 6, 0), pair_batches(tokens=tokens), packed):
        assert batches.in_one_pass == len(list(batches.once()))


def test_padded_pairs_weigh_by_their_targets() -> None:
    loss = HeldOutLoss(LossModule(build(PAIR_CONFIG).double(), NEXT_TARGET_TOKEN), Device())
    one, other = loss(pair_batches(tokens=30)), loss(pair_batches(tokens=200))
    torch.testing.assert_close(one, other, rtol=1e-12, atol=0.0)
