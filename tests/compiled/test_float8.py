"""Steps in float8 compile whole, with one program, and learn what eager ones do."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.training.device import Device
from glassformer.training.distributed import ALONE
from glassformer.training.objective import NEXT_TOKEN, LossModule
from glassformer.training.recipe import Recipe
from glassformer.training.step import Training
from glassformer.training.text_pairs import NEXT_TARGET_TOKEN
from tests.training.test_float8 import SMALL, batches
from tests.training.tiny_run import pair_batches

RECIPE = Recipe(steps=20, warmup_steps=2)
FLOAT8 = Device(compile=True, float8=True)
PAIRS = Seq2SeqConfig(vocab=13, context=12, dim=16, layers=2, heads=2, ffn_dim=32)


@pytest.fixture(autouse=True)
def quick_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Capture and differentiate, but leave out the C++ compiler, which takes a minute."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    plain = nn.Module.compile

    def quick(self: nn.Module, **options: object) -> None:
        plain(self, backend="aot_eager", **options)

    monkeypatch.setattr(nn.Module, "compile", quick)


def made(device: Device, config: GPTConfig = SMALL) -> Training:
    return Training(LossModule(build(config), NEXT_TOKEN), batches(), RECIPE, device, ALONE)


@pytest.mark.parametrize("half", [False, True], ids=["float32", "bfloat16"])
def test_a_step_is_one_program(half: bool) -> None:
    training = made(replace(FLOAT8, bf16=half), replace(SMALL, dropout=0.1))
    with torch._dynamo.config.patch(error_on_recompile=True):
        for _ in range(4):
            training.train_step()
    assert torch._dynamo.utils.counters["graph_break"] == {}
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_it_learns_what_eager_does() -> None:
    weights = []
    for device in (replace(FLOAT8, compile=False), FLOAT8):
        training = made(device)
        for _ in range(3):
            training.train_step()
        weights.append(torch.cat([p.detach().flatten() for p in training.weights]))
    assert_close(weights[0], weights[1], rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # the compiler looks at what a block is given
def test_batches_of_many_shapes_compile_without_a_break() -> None:
    training = Training(LossModule(build(PAIRS), NEXT_TARGET_TOKEN), pair_batches(), RECIPE, FLOAT8, ALONE)
    for _ in range(6):
        training.train_step()
    assert torch._dynamo.utils.counters["graph_break"] == {}
    programs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert programs <= 2 * 2, "two kinds of blocks, with and without a multiple of 16 tokens"
