"""Compiled training takes batches of any shape in one program for each kind of block, and learns what eager does."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from glassformer.models.build import build
from glassformer.training.hardware import Hardware
from glassformer.training.objective import NEXT_TARGET_TOKEN, Lesson
from glassformer.training.processes import ALONE
from glassformer.training.recipe import Recipe
from glassformer.training.step import Training
from tests.training.subject import PAIR_CONFIG, pair_batches

RECIPE = Recipe(steps=20, warmup=2)
COMPILED = Hardware(compiled=True)


@pytest.fixture(autouse=True)
def quick_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Capture and differentiate, but leave out the C++ compiler, which takes a minute."""
    torch._dynamo.reset()
    plain = nn.Module.compile

    def quick(self: nn.Module, **options: object) -> None:
        plain(self, backend="aot_eager", **options)

    monkeypatch.setattr(nn.Module, "compile", quick)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # the compiler looks at what a block is given
def test_batches_of_many_shapes_take_one_program_for_each_kind_of_block() -> None:
    torch._dynamo.utils.counters.clear()
    config = replace(PAIR_CONFIG, layers=2, dropout=0.1, attention_dropout=0.2)
    made = Training(Lesson(build(config), NEXT_TARGET_TOKEN), pair_batches(), RECIPE, COMPILED, ALONE)
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):  # what was asked for, not what is found out
        for _ in range(4):
            made.learn()
    shapes = {tuple(batch["source"].shape) for batch in pair_batches().once()}
    assert len(shapes) > 2, "the batches are too much alike to show anything"
    counters = torch._dynamo.utils.counters
    assert counters["graph_break"] == {}
    assert counters["stats"]["unique_graphs"] == 2, "one for blocks that read, one for blocks that write"


@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_it_learns_what_eager_does() -> None:
    losses = {}
    for hardware in (Hardware(), COMPILED):
        torch._dynamo.reset()
        torch.manual_seed(0)
        made = Training(Lesson(build(PAIR_CONFIG), NEXT_TARGET_TOKEN), pair_batches(), RECIPE, hardware, ALONE)
        for _ in range(4):
            made.learn()
        losses[hardware] = made.log(None).loss
    assert losses[COMPILED] == pytest.approx(losses[Hardware()], rel=1e-5)
