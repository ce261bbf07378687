"""Compiled training takes batches of any shape in one program for each kind of block, and learns what eager does."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from glassformer.data.packed_batches import PackedBatches
from glassformer.data.packed_pairs import PackedPairBatches
from glassformer.errors import TrainingError
from glassformer.models.registry import build
from glassformer.training.device import Device
from glassformer.training.distributed import ALONE
from glassformer.training.held_out import HeldOutLoss
from glassformer.training.loop import train
from glassformer.training.objective import NEXT_TOKEN, LossModule
from glassformer.training.recipe import Recipe
from glassformer.training.step import Training
from glassformer.training.text_pairs import NEXT_TARGET_TOKEN
from tests.training.tiny_run import CONFIG, PAIR_CONFIG, batches, pair_batches, pairs

RECIPE = Recipe(steps=20, warmup_steps=2)
COMPILED = Device(compile=True)
RECOMPUTED = Device(compile=True, activation_checkpointing=True)
BOTH = pytest.mark.parametrize("compiled", [COMPILED, RECOMPUTED], ids=["kept", "recomputed"])


@pytest.fixture(autouse=True)
def quick_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Capture and differentiate, but leave out the C++ compiler, which takes a minute."""
    torch._dynamo.reset()
    plain = nn.Module.compile

    def quick(self: nn.Module, **options: object) -> None:
        plain(self, backend="aot_eager", **options)

    monkeypatch.setattr(nn.Module, "compile", quick)


@BOTH
def test_packed_batches_take_one_program(compiled: Device) -> None:
    torch._dynamo.utils.counters.clear()
    config = replace(PAIR_CONFIG, layers=2, dropout=0.1, attention_dropout=0.2)
    batches = PackedPairBatches(pairs(), 60, 0, 1, 2, seed=5)
    loss_module = LossModule(build(config), replace(NEXT_TARGET_TOKEN, longest=batches.longest), r_drop=2.0)
    made = Training(loss_module, batches, RECIPE, compiled, ALONE)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for _ in range(6):
            made.train_step()
    assert batches.state()["epoch"] >= 1
    counters = torch._dynamo.utils.counters
    assert counters["graph_break"] == {}
    assert counters["stats"]["unique_graphs"] == 1


def test_a_compiled_packed_step_learns_what_an_eager_one_does() -> None:
    weights = []
    for device in (Device(), COMPILED, RECOMPUTED):
        batches = PackedPairBatches(pairs(), 60, 0, 1, 2, seed=5)
        loss_module = LossModule(build(PAIR_CONFIG), replace(NEXT_TARGET_TOKEN, longest=batches.longest))
        made = Training(loss_module, batches, RECIPE, device, ALONE)
        for _ in range(3):
            made.train_step()
        weights.append(torch.cat([p.detach().flatten() for p in made.weights]))
    assert_close(weights[0], weights[1], rtol=1e-4, atol=1e-5)
    assert_close(weights[1], weights[2], rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # the compiler looks at what a block is given
@BOTH
def test_batches_of_many_shapes_take_one_program_for_each_kind_of_block(compiled: Device) -> None:
    torch._dynamo.utils.counters.clear()
    torch._dynamo.utils.clear_compilation_metrics()
    config = replace(PAIR_CONFIG, layers=2, dropout=0.1, attention_dropout=0.2)
    made = Training(LossModule(build(config), NEXT_TARGET_TOKEN), pair_batches(), RECIPE, compiled, ALONE)
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):  # what was asked for, not what is found out
        for _ in range(4):
            made.train_step()
    shapes = {tuple(batch["source"].shape) for batch in pair_batches().once()}
    assert len(shapes) > 2, "the batches are too much alike to show anything"
    counters = torch._dynamo.utils.counters
    assert counters["graph_break"] == {}
    assert counters["stats"]["unique_graphs"] == 2, "one for blocks that read, one for blocks that write"
    captures = torch._dynamo.utils.get_compilation_metrics()
    assert len(captures) == 2 and not any(each.restart_reasons for each in captures), "each is captured once"


@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_it_learns_what_eager_does() -> None:
    losses = {}
    for device in (Device(), COMPILED, RECOMPUTED):
        torch._dynamo.reset()
        torch.manual_seed(0)
        made = Training(LossModule(build(PAIR_CONFIG), NEXT_TARGET_TOKEN), pair_batches(), RECIPE, device, ALONE)
        for _ in range(4):
            made.train_step()
        losses[device] = made.log(None).loss
    assert losses[COMPILED] == pytest.approx(losses[Device()], rel=1e-5)
    assert losses[RECOMPUTED] == pytest.approx(losses[COMPILED], rel=1e-6)


@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "by block"])
def test_compiled_recomputation_draws_the_same_random_numbers(whole: bool) -> None:
    config = replace(PAIR_CONFIG, layers=2, dropout=0.3, attention_dropout=0.2)
    gradients = []
    for device in (COMPILED, RECOMPUTED):
        torch._dynamo.reset()
        batches = PackedPairBatches(pairs(), 60, 0, 1, 2, seed=5) if whole else pair_batches()
        objective = replace(NEXT_TARGET_TOKEN, longest=batches.longest if whole else None)
        made = Training(LossModule(build(config), objective), batches, RECIPE, device, ALONE)
        torch.manual_seed(1)
        for _ in range(2):
            made.train_step()
        gradients.append(torch.cat([p.detach().flatten() for p in made.weights]))
    assert_close(gradients[0], gradients[1], rtol=1e-6, atol=1e-7)


@BOTH
@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_a_bad_number_is_traced_to_its_equation_inside_a_compiled_block(compiled: Device) -> None:
    made = Training(LossModule(build(PAIR_CONFIG), NEXT_TARGET_TOKEN), pair_batches(), RECIPE, compiled, ALONE)
    made.train_step()
    with torch.no_grad():
        made.model.get_parameter("decoder.blocks.0.feed_forward.up.weight")[0, 0] = torch.nan
    with pytest.raises(
        TrainingError, match=r"decoder\.blocks\.0\.feed_forward\.up\.linear: linear is the first that is not finite"
    ):
        made.train_step()


@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_a_trained_model_is_no_longer_compiled() -> None:
    model, recipe = build(PAIR_CONFIG), replace(RECIPE, steps=3, log_every=1)
    list(train(model, pair_batches(), NEXT_TARGET_TOKEN, recipe, device=COMPILED))
    before = torch._dynamo.utils.counters["frames"]["total"]
    assert before > 0
    model(torch.ones(1, 3, dtype=torch.long), torch.ones(1, 2, dtype=torch.long))
    assert torch._dynamo.utils.counters["frames"]["total"] == before


@pytest.mark.parametrize("worth", [False, True])
def test_an_evaluation_compiles_only_the_shape_of_training_and_only_once(worth: bool) -> None:
    torch._dynamo.utils.counters.clear()
    config = replace(CONFIG, dropout=0.2)
    made = Training(LossModule(build(config), NEXT_TOKEN), batches(), RECIPE, COMPILED, ALONE)
    validation = PackedBatches(np.arange(3 * 6 * 3 + 9) % 11, 3, 6, 0)
    assert len({tuple(batch["ids"].shape) for batch in validation.once()}) == 3
    made.train_step()
    made.device = Device(compile=worth)
    found = [made.evaluate(validation) for _ in range(2)]
    made.train_step()
    made.evaluate(validation)
    counters = torch._dynamo.utils.counters
    assert counters["graph_break"] == {}
    assert counters["stats"]["unique_graphs"] == (2 if worth else 1)
    other = build(config)
    other.load_state_dict(made.model.state_dict())
    wanted = HeldOutLoss(LossModule(other, NEXT_TOKEN), Device())(validation)
    assert made.evaluate(validation) == pytest.approx(wanted, rel=1e-6) and found[0] == found[1] != wanted


def test_an_evaluation_of_uneven_batches_compiles_nothing() -> None:
    torch._dynamo.utils.counters.clear()
    packed = PackedPairBatches(pairs(), 60, 0, 1, 2, seed=5)
    for given in (pair_batches(), packed):
        objective = replace(NEXT_TARGET_TOKEN, longest=given.longest)
        made = Training(LossModule(build(PAIR_CONFIG), objective), given, RECIPE, COMPILED, ALONE)
        made.evaluate(pair_batches())
    assert torch._dynamo.utils.counters["stats"].get("unique_graphs", 0) == 0
