"""Packed pairs on an accelerator: the kernel equals the formula, one program for all batches, the padded loss."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from glassformer.data.packed_pairs import PackedPairBatches, unpacked
from glassformer.data.prefetched import Prefetched
from glassformer.equation import no_checks
from glassformer.equations.packed_attention import packed_attention, packed_kernel
from glassformer.models.registry import build
from glassformer.models.seq2seq import Seq2SeqConfig
from glassformer.training.device import Device
from glassformer.training.distributed import ALONE
from glassformer.training.estimate import estimate
from glassformer.training.objective import LossModule, Objective
from glassformer.training.recipe import Recipe
from glassformer.training.step import Training
from glassformer.training.text_pairs import NEXT_TARGET_TOKEN

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("default"),  # torch gives hints about float32 speed
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

CUDA = Device(torch.device("cuda", 0), bf16=True)
CONFIG = Seq2SeqConfig(vocab=500, context=64, dim=64, layers=2, heads=2, ffn_dim=128, norm_first=True)
RECIPE = Recipe(steps=40, warmup_steps=2, label_smoothing=0.1)


def pairs(count: int = 400, seed: int = 0) -> list[tuple[list[int], list[int]]]:
    chance = np.random.default_rng(seed)
    return [tuple(chance.integers(3, 500, chance.integers(2, 40)).tolist() for _ in range(2)) for _ in range(count)]  # pyright: ignore


def batches(tokens: int = 1024) -> PackedPairBatches:
    return PackedPairBatches(pairs(), tokens, 0, 1, 2, seed=0)


def objective(packed: PackedPairBatches) -> Objective:
    return replace(NEXT_TARGET_TOKEN, longest=packed.longest)


def bounds(rows: int, documents: int, tokens: int, seed: int) -> Tensor:
    """Documents of at most 128 tokens in each row, empty ones among them and at the end."""
    chance = np.random.default_rng(seed)
    found = np.full((rows, documents + 1), tokens)
    for row in found:
        at = 0
        for number in range(documents):
            row[number] = at
            at = min(at + int(chance.integers(0, 129)), tokens)
            if tokens - at > 128 * (documents - number - 1):
                at = min(row[number] + 128, tokens)
    return torch.from_numpy(found).int().cuda()


LONGEST = pytest.mark.parametrize("longest", [128, 640], ids=["short", "flash"])  # which kernel it is


@LONGEST
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("causal", [False, True])
def test_the_kernel_equals_the_formula_forward_and_backward(
    causal: bool, rows: int, dtype: torch.dtype, longest: int
) -> None:
    chance = torch.Generator("cuda").manual_seed(0)
    c = bounds(rows, 24, 640, 0)
    e = c if causal else bounds(rows, 24, 704, 1)
    keys = 640 if causal else 704
    q, k, v = (
        torch.randn(rows, 2, n, 64, generator=chance, device="cuda", dtype=dtype).requires_grad_()
        for n in (640, keys, keys)
    )
    exact = [t.detach().double().requires_grad_() for t in (q, k, v)]
    fast = packed_kernel(q, k, v, (c, e), longest, causal, None)
    assert fast is not None, "there is a kernel"
    slow = packed_attention.fn(exact[0], exact[1], exact[2], c, e, longest, causal)
    room = 2e-2 if dtype == torch.bfloat16 else 4e-3
    assert_close(fast.double(), slow, rtol=room, atol=room)
    seed = torch.randn(slow.shape, generator=chance, device="cuda", dtype=dtype)
    found = torch.autograd.grad(fast, (q, k, v), seed)
    wanted = torch.autograd.grad(slow, exact, seed.double())
    for one, other in zip(found, wanted, strict=True):
        assert one.isfinite().all()
        assert (one.double() - other).abs().max() <= 2 * room * other.abs().max()


@LONGEST
def test_dropped_weights_keep_their_mean(longest: int) -> None:
    q, v = torch.zeros(1, 1, 640, 64, device="cuda", dtype=torch.bfloat16), torch.ones(1, 1, 640, 64, device="cuda")
    c = bounds(1, 24, 640, 0)
    torch.manual_seed(0)
    one, other = (packed_kernel(q, q, v.bfloat16(), (c, c), longest, False, None, 0.3) for _ in range(2))
    assert one is not None and other is not None
    assert float(one.float().mean()) == pytest.approx(1, abs=0.1)
    assert not torch.equal(one, other) and float(one.float().std()) > 0.01


@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_the_loss_is_that_of_padded_pairs(r_drop: float) -> None:
    model, made = build(CONFIG).cuda(), batches()
    batch = {name: part.cuda() for name, part in next(made).items()}
    exact, _ = LossModule(model.double(), objective(made), r_drop)(unpacked(batch))
    packed, _ = LossModule(model, objective(made), r_drop)(batch)
    assert_close(packed, exact, rtol=1e-9, atol=1e-9)
    model.float()
    with no_checks(), torch.autocast("cuda", torch.bfloat16):  # as a run
        fast, count = LossModule(model, objective(made), r_drop)(batch)
    assert float(fast / count) == pytest.approx(float(exact / count), rel=1e-2)
    fast.backward()
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())


@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_one_program_serves_all_batches(r_drop: float) -> None:
    torch._dynamo.reset()
    made = batches()
    model = build(replace(CONFIG, dropout=0.1, attention_dropout=0.1))
    training = Training(
        LossModule(model, objective(made), r_drop), Prefetched(made), RECIPE, replace(CUDA, compile=True), ALONE
    )
    for _ in range(3):
        training.train_step()
    first = training.log(None).loss
    torch._dynamo.utils.counters.clear()
    with torch._dynamo.config.patch(error_on_recompile=True):
        for _ in range(27):
            training.train_step()
    counters = torch._dynamo.utils.counters
    assert counters["graph_break"] == {} and counters["stats"].get("unique_graphs", 0) == 0
    assert made.position[0] >= 1, "more than one epoch"
    assert training.log(None).loss < first


def test_nobody_waits_for_the_device() -> None:
    made = batches()
    training = Training(LossModule(build(CONFIG), objective(made)), made, RECIPE, CUDA, ALONE)
    for _ in range(5):  # the graph is captured
        training.train_step()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(8):
            training.train_step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert training.done == 13


def test_a_run_is_estimated() -> None:
    made = batches(4096)
    found = estimate(build(CONFIG), objective(made), made, made, RECIPE, CUDA)
    assert found.memory < 2e9, "no scores of all tokens of a row with all others"
