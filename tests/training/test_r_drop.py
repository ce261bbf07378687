"""Two passes that should agree: the loss as it was published, one pass where there is nothing to agree on."""

from dataclasses import replace

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from glassformer.data.batches import IGNORE, Batch
from glassformer.models.registry import build
from glassformer.training.loop import train
from glassformer.training.objective import LossModule
from glassformer.training.recipe import Recipe
from glassformer.training.text_pairs import NEXT_TARGET_TOKEN
from tests.training.tiny_run import PAIR_CONFIG, pair_batches

DROPPING = replace(PAIR_CONFIG, dropout=0.3, attention_dropout=0.1)


def loss_and_gradients(loss_module: LossModule, batch: Batch, label_smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    loss_module.zero_grad()
    loss, _ = loss_module(batch, label_smoothing)
    loss.backward()
    return loss, torch.cat([p.grad.flatten() for p in loss_module.parameters() if p.grad is not None])


@given(seed=st.integers(0, 2**16), weight=st.floats(0.1, 8), label_smoothing=st.sampled_from([0.0, 0.1]))
@settings(max_examples=20)
def test_it_is_the_published_loss(seed: int, weight: float, label_smoothing: float) -> None:
    """Cross-entropy of both passes and their mutual divergence, by torch's own functions."""
    model, batch = build(DROPPING, seed).double(), next(pair_batches().once())
    torch.manual_seed(seed)
    found, count = LossModule(model, NEXT_TARGET_TOKEN, weight)(batch, label_smoothing)
    torch.manual_seed(seed)
    both = model(*(torch.cat([batch[name]] * 2) for name in NEXT_TARGET_TOKEN.inputs))
    counts = batch["targets"] != IGNORE
    one, other = (scores[counts] for scores in both.chunk(2))
    targets = batch["targets"][counts]
    surprise = sum(
        functional.cross_entropy(s, targets, label_smoothing=label_smoothing, reduction="sum") for s in (one, other)
    )
    p, q = one.log_softmax(-1), other.log_softmax(-1)
    apart = sum(functional.kl_div(a, b, log_target=True, reduction="sum") for a, b in ((p, q), (q, p)))
    assert apart > 0
    assert_close(found, (surprise + weight * apart / 2) / 2, rtol=1e-9, atol=0)
    assert count == counts.sum()


def test_without_dropout_there_is_nothing_to_agree_on() -> None:
    model, batch = build(PAIR_CONFIG).double(), next(pair_batches().once())
    plain = loss_and_gradients(LossModule(model, NEXT_TARGET_TOKEN), batch, 0.1)
    double = loss_and_gradients(LossModule(model, NEXT_TARGET_TOKEN, 5.0), batch, 0.1)
    for found, wanted in zip(double, plain, strict=True):
        assert_close(found, wanted, rtol=1e-9, atol=1e-12)


def test_a_model_is_evaluated_by_one_pass() -> None:
    model, batch = build(DROPPING), next(pair_batches().once())
    rows: list[int] = []
    model.get_submodule("encoder").register_forward_pre_hook(lambda module, given: rows.append(len(given[0])))
    loss_module = LossModule(model, NEXT_TARGET_TOKEN, 5.0)
    loss_module(batch)
    loss_module.eval()(batch)
    assert rows == [2 * len(batch["source"]), len(batch["source"])]


def test_the_recipe_asks_for_it() -> None:
    logs = {}
    for agreement in (0.0, 5.0):
        recipe = Recipe(steps=3, warmup_steps=1, log_every=1, r_drop=agreement)
        logs[agreement] = list(train(build(DROPPING), pair_batches(), NEXT_TARGET_TOKEN, recipe))
    assert all(twice.loss > once.loss for once, twice in zip(logs[0.0], logs[5.0], strict=True))
    assert [log.tokens for log in logs[5.0]] == [log.tokens for log in logs[0.0]], "a token read twice is one token"
