"""8-bit floats on an accelerator: the fused products beside the plain ones, and compiled steps that do not wait."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from glassformer.data.packed_batches import PackedBatches
from glassformer.equation import no_checks
from glassformer.equations import float8
from glassformer.equations.float8 import float8_linear
from glassformer.models.gpt import GPTConfig
from glassformer.models.llama import LlamaConfig
from glassformer.models.registry import build
from glassformer.training.device import Device, choose_device
from glassformer.training.distributed import ALONE
from glassformer.training.loop import train
from glassformer.training.objective import NEXT_TOKEN, LossModule
from glassformer.training.recipe import Recipe
from glassformer.training.run_folder import LOG, RunFolder
from glassformer.training.step import Training
from tests.gpu.test_training import TOKENS
from tests.training.fake_snapshots import same


def _cannot() -> bool:
    return not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 9)


pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("default"),  # torch gives hints about float32 speed
    pytest.mark.skipif(_cannot(), reason="needs a CUDA device of compute capability 8.9"),
]

FLOAT8 = Device(torch.device("cuda", 0), bf16=True, float8=True)
CONFIG = GPTConfig(vocab=64, context=32, dim=64, layers=2, heads=4)
LLAMA = LlamaConfig(vocab=64, context=32, dim=64, layers=2, heads=4, ffn_dim=128)
RECIPE = Recipe(steps=60, learning_rate=3e-3, warmup_steps=3, log_every=20, save_every=20)
EAGER_AND_COMPILED = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])


def batches() -> PackedBatches:
    return PackedBatches(TOKENS, 8, 32, 0)


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).cuda()


def passed(form: nn.Module, x: Tensor, W: Tensor, b: Tensor | None, y_bar: Tensor) -> list[Tensor]:
    """The output of a layer in autocast where x is bfloat16, and its gradients."""
    leaves = [t.clone().requires_grad_() for t in (x, W, b) if t is not None]
    with no_checks(), torch.autocast("cuda", torch.bfloat16, enabled=x.dtype == torch.bfloat16):
        y = form(*leaves)
    return [y, *torch.autograd.grad(y, leaves, y_bar.to(y.dtype))]


class Form(nn.Module):
    """One of the forms of the equation, as a module that can be compiled."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused

    def forward(self, x: Tensor, W: Tensor, b: Tensor | None = None) -> Tensor:
        """The linear layer."""
        return float8_linear(x, W, b) if self.fused else float8_linear.fn(x, W, b)


@EAGER_AND_COMPILED
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(256, 64, 192), (37, 768, 48), (1, 16, 16)])
def test_the_fused_products_equal_the_plain_ones(
    compiled: bool,
    dtype: torch.dtype,
    bias: bool,
    rows: int,
    inputs: int,
    outputs: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch._dynamo.reset()
    x, W, y_bar = drawn(0, rows, inputs).to(dtype), drawn(1, inputs, outputs) / 8, 1e-4 * drawn(2, rows, outputs)
    y_bar = y_bar.to(dtype).float()
    b = drawn(3, outputs) if bias else None
    plain = passed(Form(fused=False), x, W, b, y_bar)
    monkeypatch.setattr(float8_linear, "fn", None)  # nobody falls back
    form = Form(fused=True)
    if compiled:
        form.compile(fullgraph=True)
    fused = passed(form, x, W, b, y_bar)
    # The kernels sum forward with fewer bits than float32 has.
    for one, other in zip(fused, plain, strict=True):
        size = float(other.float().abs().max())
        assert_close(one.float(), other.float(), rtol=1e-2, atol=(5e-3 if dtype == torch.float32 else 1e-2) * size)


def test_rounding_is_that_of_a_processor() -> None:
    for dtype in (float8.E4M3, float8.E5M2):
        for power in (-40, 0, 40):
            x = drawn(power, 300, 70) * torch.exp2(4 * drawn(power + 1, 300, 70)) * 2.0**power
            here, scale = float8.to_float8(x, dtype)
            there, other = float8.to_float8(x.cpu(), dtype)
            assert torch.equal(here.cpu().float(), there.float()) and float(scale) == float(other)
            compiled = torch.compile(float8.to_float8)
            again, third = compiled(x, dtype)
            assert torch.equal(again.float(), here.float()) and float(third) == float(scale)


@EAGER_AND_COMPILED
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_what_is_not_finite_is_not_hidden(compiled: bool, bad: float) -> None:
    torch._dynamo.reset()
    form = Form(fused=True)
    if compiled:
        form.compile(fullgraph=True)
    x, W, y_bar = drawn(0, 32, 64), drawn(1, 64, 32), drawn(2, 32, 32)
    x[3, 5] = bad
    assert not passed(form, x, W, None, y_bar)[0][3].isfinite().any()
    x[3, 5], y_bar[2, 7] = 1.0, bad
    assert not passed(form, x, W, None, y_bar)[2][:, 7].isfinite().any()


@pytest.mark.parametrize("config", [CONFIG, LLAMA], ids=["gpt", "llama"])
@EAGER_AND_COMPILED
def test_it_learns_as_bfloat16_does(config: GPTConfig | LlamaConfig, compiled: bool) -> None:
    def losses(device: Device) -> list[float]:
        torch._dynamo.reset()
        return [log.loss for log in train(build(config), batches(), NEXT_TOKEN, RECIPE, device=device)]

    device = replace(FLOAT8, compile=compiled)
    half, rounded = losses(replace(device, float8=False)), losses(device)
    assert rounded == pytest.approx(half, rel=0.05) and rounded != half


@EAGER_AND_COMPILED
def test_steps_are_captured_whole_and_nobody_waits(compiled: bool) -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    device = replace(FLOAT8, compile=compiled)
    made = Training(LossModule(build(CONFIG), NEXT_TOKEN), batches(), RECIPE, device, ALONE)
    for _ in range(5):
        made.train_step()
    made.raise_if_nonfinite()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(10):
            made.train_step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert made.graphed is not None and made.graphed.problem is None
    assert torch._dynamo.utils.counters["graph_break"] == {}
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == (1 if compiled else 0)
    assert made.log(None).loss < 5


def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    whole, stopped = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "stopped")
    for folder, stop in ((whole, 60), (stopped, 20), (stopped, 60)):
        for log in train(build(CONFIG), batches(), NEXT_TOKEN, RECIPE, folder, batches(), FLOAT8):
            if log.step == stop:
                break
    one, other = whole.latest(), stopped.latest()
    assert one is not None and other is not None
    for name, value in one.model.items():
        assert_close(other.model[name], value, rtol=1e-4, atol=1e-4)  # sums on a GPU have no fixed order
    if not same(one, other):
        pytest.skip("alike, but not to the bit: kernels of this device add in any order")
    assert (whole.path / LOG).read_text() == (stopped.path / LOG).read_text()


def test_this_device_computes_in_float8() -> None:
    said: list[str] = []
    chosen = choose_device("auto", "float8", "auto", said.append)
    assert chosen.float8 and chosen.bf16 and not said
