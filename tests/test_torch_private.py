"""Private torch calls and their fallbacks do the same."""

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter
from torch.optim import SGD, AdamW

from glassformer import torch_private

NAMES = ("_foreach_mul_", "_foreach_lerp_")


@pytest.fixture(params=[True, False], ids=["private", "fallback"])
def has_private(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if not request.param:
        for name in NAMES:
            monkeypatch.delattr(torch, name)
    return request.param


def rows(seed: int) -> list[Tensor]:
    chance = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=chance) for shape in ((3,), (2, 4), ())]


@pytest.mark.usefixtures("has_private")
def test_lists_of_tensors_change_as_each_alone() -> None:
    for factor in (0.3, torch.tensor(0.3)):
        found = rows(1)
        torch_private.multiply_all(found, factor)
        assert all(torch.equal(one, other * factor) for one, other in zip(found, rows(1), strict=True))
    found = rows(1)
    torch_private.lerp_all(found, rows(2), 0.25)
    wanted = [one.lerp(other, 0.25) for one, other in zip(rows(1), rows(2), strict=True)]
    assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))


def test_a_step_is_skipped_by_the_kernel_that_can() -> None:
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    assert torch_private.step_unless(torch.tensor(1.0), AdamW([weight], 0.1, fused=True))
    assert torch.equal(weight.detach(), torch.ones(3))
    assert torch_private.step_unless(torch.tensor(0.0), AdamW([weight], 0.1, fused=True))
    assert not torch.equal(weight.detach(), torch.ones(3))
    before = weight.detach().clone()
    assert not torch_private.step_unless(torch.tensor(0.0), SGD([weight], 0.1))
    assert torch.equal(weight.detach(), before), "the caller takes the step"


def test_compiler_settings_that_are_gone_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []

    def gone(name: str) -> object:
        found.append(name)
        raise ImportError(name)

    monkeypatch.setattr(torch_private.importlib, "import_module", gone)
    torch_private.compile_for_many_shapes()
    assert found == ["torch.fx.experimental._config", "torch._dynamo.config"]


def test_a_module_is_uncompiled() -> None:
    module = nn.Sequential(nn.Linear(2, 2))
    module[0].compile()
    torch_private.uncompile(module)
    assert module[0]._compiled_call_impl is None


def test_the_compiler_is_back_once_no_thread_runs_uncompiled() -> None:
    """The first to begin is the first to end: with a switch for each, the second would turn back to uncompiled."""
    compiled = torch.compile(lambda x: x + 1, backend=(counter := CompileCounter()))
    first, second = torch_private.uncompiled(), torch_private.uncompiled()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    compiled(torch.ones(2))
    assert counter.frame_count == 0
    second.__exit__(None, None, None)
    compiled(torch.ones(2))
    assert counter.frame_count == 1
