"""Muon for many matrices at once takes torch's steps; where a value was not finite it takes none."""

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Muon
from torch.testing import assert_close

from glassformer.training.muon import BatchedMuon


def matrices(seed: int) -> list[nn.Parameter]:
    chance = torch.Generator().manual_seed(seed)
    shapes = ((6, 4), (4, 6), (6, 4), (5, 5), (6, 4))
    return [nn.Parameter(torch.randn(shape, generator=chance)) for shape in shapes]


def gradients(step: int) -> list[Tensor]:
    return [matrix.detach() for matrix in matrices(100 + step)]


@pytest.mark.parametrize("as_tensor", [False, True])
def test_it_takes_the_steps_of_torch(as_tensor: bool) -> None:
    ours, theirs = matrices(0), matrices(0)
    batched = BatchedMuon(ours, 0.02, 0.1)
    single = Muon(theirs, 0.02, 0.1, adjust_lr_fn="match_rms_adamw")
    for step in range(5):
        for group in batched.param_groups:
            group["lr"] = torch.tensor(0.02) if as_tensor else 0.02
        for one, other, gradient in zip(ours, theirs, gradients(step), strict=True):
            one.grad, other.grad = gradient.clone(), gradient.clone()
        batched.step()
        single.step()
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, rtol=2e-2, atol=5e-3)  # both round the iterations to bfloat16, in another order
        assert_close(batched.state[one]["momentum_buffer"], single.state[other]["momentum_buffer"])


def test_a_matrix_without_a_gradient_stays() -> None:
    ours = matrices(0)
    ours[0].grad = torch.ones_like(ours[0])
    BatchedMuon(ours, 0.02, 0.1).step()
    for one, before in zip(ours[1:], matrices(0)[1:], strict=True):
        assert torch.equal(one, before)
    assert not torch.equal(ours[0], matrices(0)[0])


def test_nothing_moves_where_it_is_told_to_skip() -> None:
    ours = matrices(0)
    optimizer = BatchedMuon(ours, 0.02, 0.1)
    for step in range(2):
        for one, gradient in zip(ours, gradients(step), strict=True):
            one.grad = gradient * (torch.nan if step else 1.0)
        optimizer.found_inf = torch.tensor(float(step))
        if step:
            before = [one.detach().clone() for one in ours]
            buffers = [optimizer.state[one]["momentum_buffer"].clone() for one in ours]
        optimizer.step()
    assert all(torch.equal(one, old) for one, old in zip(ours, before, strict=True))
    assert all(torch.equal(optimizer.state[one]["momentum_buffer"], b) for one, b in zip(ours, buffers, strict=True))
