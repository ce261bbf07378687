"""The same models on an accelerator: equal to the CPU, kind about bad input, whole under compile."""

import pytest
import torch
from torch.testing import assert_close

import glassformer.equations  # noqa: F401 - fills the catalog
from glassformer.equations.attention import attention
from glassformer.errors import EquationError, ModelError
from glassformer.probes.agreement import agreement
from glassformer.recording import Tape
from tests.models.zoo import VOCAB, ZOO, specimen

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("default"),  # torch gives hints about float32 speed
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture(autouse=True)
def full_precision() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def moved(name: str, dtype: torch.dtype) -> tuple:
    case = specimen(name, dtype)
    case.model.cuda()
    case.inputs = {key: value.cuda() for key, value in case.inputs.items()}
    return case


@pytest.mark.parametrize("name", ZOO)
def test_cuda_equals_cpu_and_replays(name: str) -> None:
    on_cpu, on_gpu = specimen(name, torch.float64), moved(name, torch.float64)
    with Tape() as tape:
        y = on_gpu()
    assert_close(y.cpu(), on_cpu(), rtol=1e-9, atol=1e-9)
    assert torch.equal(tape.replay(), y)
    seed = torch.randn_like(y)
    found = tape.reverse(seed)
    parameters = [weight for weight in on_gpu.model.parameters() if weight.requires_grad]  # DALL-E has frozen ones
    for parameter, wanted in zip(parameters, torch.autograd.grad(y, parameters, seed, allow_unused=True), strict=True):
        if wanted is not None:
            assert_close(found[parameter], wanted, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", ZOO)
def test_fast_equals_shown_on_cuda(name: str) -> None:
    case = moved(name, torch.float32)
    assert max(row.difference for row in agreement(case.model, case.inputs)) < 1e-4
    half = moved(name, torch.bfloat16)
    exact = specimen(name, torch.bfloat16)
    exact.model.double()
    inputs = {k: v.double() if v.is_floating_point() else v for k, v in exact.inputs.items()}
    wanted = exact.model(**inputs)
    assert (half().cpu().double() - wanted).abs().max() <= 0.06 * wanted.abs().max()


@pytest.mark.parametrize("name", ["gpt", "llama-grouped", "seq2seq", "t5", "modern", "encoder-masked"])
def test_compiled_on_cuda(name: str) -> None:
    torch._dynamo.reset()
    case = moved(name, torch.float32)
    compiled = torch.compile(case.model, fullgraph=True)
    assert_close(compiled(**case.inputs), case(), rtol=1e-4, atol=1e-4)


def test_bad_tokens_never_reach_the_device() -> None:
    """A device-side assert would end the process for good; afterwards the device still works."""
    for name, key in (("gpt", "ids"), ("seq2seq", "source"), ("t5", "target"), ("encoder", "ids"), ("lstm", "ids")):
        case = moved(name, torch.float32)
        with pytest.raises(ModelError, match="holds the id 13"):
            case(**{key: torch.full((3, 4), VOCAB, device="cuda")})
    with pytest.raises(EquationError):
        attention(torch.ones(2, 3, device="cuda"), torch.ones(2, 4, device="cuda"), torch.ones(2, 4, device="cuda"))
    assert torch.ones(3, device="cuda").sum().item() == 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_fully_masked_rows_give_zeros_with_every_kernel(dtype: torch.dtype) -> None:
    q, k, v = (torch.randn(2, 4, 64, 64, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3))
    for blocked in (-torch.inf, -1e9):
        mask = torch.zeros(64, 64, device="cuda", dtype=torch.float32)
        mask[5] = blocked
        o = attention(q, k, v, mask)
        assert o[:, :, 5].eq(0).all()
        gradients = torch.autograd.grad(o, (q, k, v), torch.randn_like(o))
        assert all(gradient.isfinite().all() for gradient in gradients)
