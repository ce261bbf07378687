"""The held-out loss on a GPU: captured as graphs it is the eager one, and the host waits once for each pass."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from glassformer.data.batches import Batches
from glassformer.data.packed_batches import PackedBatches
from glassformer.layers.model import Model
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.torch_private import compiled_graphs
from glassformer.training.device import Device
from glassformer.training.distributed import ALONE
from glassformer.training.graphed_step import MOST, shapes_of
from glassformer.training.held_out import HeldOutLoss
from glassformer.training.objective import NEXT_TOKEN, LossModule, Objective
from glassformer.training.recipe import Recipe
from glassformer.training.step import Training
from glassformer.training.text_pairs import NEXT_TARGET_TOKEN
from tests.training.tiny_run import PAIR_CONFIG, pair_batches

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("default"),  # torch gives hints about float32 speed
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

CUDA = Device(torch.device("cuda", 0))
CONFIG = GPTConfig(vocab=64, context=32, dim=64, layers=2, heads=4, dropout=0.1)
TOKENS = (np.arange(4000) ** 2 // 7) % 64
RECIPE = Recipe(steps=24, learning_rate=3e-3, warmup_steps=3, ema_decay=0.9, log_every=6, evaluate_every=6)


def held_out() -> PackedBatches:
    """Six batches of the shape of training, and two of other shapes at the end."""
    return PackedBatches(TOKENS[: 8 * 32 * 6 + 3 * 32 + 8], 8, 32, 0)


def training(device: Device, recipe: Recipe = RECIPE) -> Training:
    torch.manual_seed(0)
    return Training(LossModule(build(CONFIG), NEXT_TOKEN), PackedBatches(TOKENS, 8, 32, 0), recipe, device, ALONE)


def eager(model: Model, objective: Objective, batches: Batches, device: Device) -> float:
    """The loss without a graph, and without what the class does besides."""
    model.eval()
    loss = targets = 0.0
    with torch.no_grad(), device.autocast(), torch.compiler.set_stance("force_eager"):
        for batch in batches.once():
            one, count = LossModule(model, objective)(device.move(batch), 0.0)
            loss, targets = loss + float(one), targets + float(count)
    model.train()
    return loss / targets


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("half", [False, True], ids=["float32", "bfloat16"])
def test_it_is_the_eager_loss_between_steps_and_nothing_is_made_after_the_second(compiled: bool, half: bool) -> None:
    torch._dynamo.reset()
    device = replace(CUDA, compile=compiled, bf16=half)
    made, batches = training(device), held_out()
    assert len({shapes_of([batch]) for batch in batches.once()}) == 3
    found, programs, graphs = [], [], []
    for _ in range(4):
        for _ in range(6):
            made.train_step()
        found.append(made.evaluate(batches))
        assert made.model.training and made.ema is not None
        with made.ema.swapped_in():
            assert found[-1] == pytest.approx(
                eager(made.model, NEXT_TOKEN, batches, device), rel=3e-3 if half else 1e-5
            )
        assert made.held_out is not None and made.held_out.graphed is not None
        programs.append(compiled_graphs())
        graphs.append(made.held_out.graphed.captured)
        assert made.held_out.graphed.problem is None and made.graphed is not None and made.graphed.problem is None
    assert graphs == [1, 3, 3, 3]
    assert len(set(programs)) == 1, "what is compiled is compiled in the first pass"
    assert found[-1] < found[0], "it sees the weights as they are, not as they were captured"


@pytest.mark.parametrize("half", [False, True], ids=["float32", "bfloat16"])
def test_a_graph_gives_the_bits_of_the_kernels_without_one(half: bool) -> None:
    made = training(replace(CUDA, bf16=half))
    loss = HeldOutLoss(made.loss_module, made.device)
    first, *later = (loss(held_out()) for _ in range(4))
    assert loss.graphed is not None and loss.graphed.captured == 3
    assert later == [first] * 3


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_the_host_waits_once_for_each_pass(compiled: bool) -> None:
    made, batches = training(replace(CUDA, compile=compiled)), held_out()
    for _ in range(3):
        made.train_step()
        made.evaluate(batches)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            made.evaluate(batches)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    waits = [str(each.message) for each in found if "synchroniz" in str(each.message)]
    assert len(waits) == 1, waits


def test_batches_of_many_shapes_have_graphs_for_the_first_of_them() -> None:
    model, batches = build(PAIR_CONFIG), pair_batches(tokens=30)
    shapes = {shapes_of([batch]) for batch in batches.once()}
    assert len(shapes) > MOST
    made = Training(LossModule(model, NEXT_TARGET_TOKEN), pair_batches(), RECIPE, CUDA, ALONE)
    for _ in range(3):
        made.train_step()
        found = made.evaluate(batches)
        assert made.ema is not None
        with made.ema.swapped_in():
            assert found == pytest.approx(eager(model, NEXT_TARGET_TOKEN, batches, CUDA), rel=1e-5)
    assert made.held_out is not None and made.held_out.graphed is not None
    assert made.held_out.graphed.captured == MOST


def test_an_evaluation_changes_nothing_of_training() -> None:
    def weights(evaluations: int) -> list[torch.Tensor]:
        made = training(CUDA)
        for _ in range(12):
            made.train_step()
            for _ in range(evaluations):
                made.evaluate(held_out())
        return [weight.detach().clone() for weight in made.weights]

    for one, other in zip(weights(0), weights(2), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)  # sums on a GPU have no fixed order
