# pyright: basic, reportMissingImports=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false
"""A Triton kernel for cross-entropy: each row of logits is read twice, and becomes its own gradient."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 2048  # columns that a program holds at once
LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def _logits(z, column, classes):
    """A block of logits; they are read once more soon."""
    x = tl.load(z + column, mask=column < classes, other=-float("inf"), eviction_policy="evict_last")
    return x.to(tl.float32)


@triton.jit
def _real(x, column, classes):
    """Logits, with 0 for those beyond the last class."""
    return tl.where(column < classes, x, 0.0)


@triton.jit
def _rows(
    z_ptr, target_ptr, loss_ptr, stride, classes, columns, smoothed, left_out, BLOCK: tl.constexpr,
    SMOOTHS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    z = z_ptr + row * stride
    target = tl.load(target_ptr + row)
    counts = target != left_out
    target = tl.where(counts, target, 0)
    # Each lane keeps its own maximum and sum: a reduction in every turn of the loop would wait for all threads. Of four
    # logits it takes the maximum at once, so that the sum is rescaled once for all of them.
    largest = tl.full((BLOCK,), -1e38, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    summed = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, classes, 4 * BLOCK):
        a = start + tl.arange(0, BLOCK)
        x0, x1 = _logits(z, a, classes), _logits(z, a + BLOCK, classes)
        x2, x3 = _logits(z, a + 2 * BLOCK, classes), _logits(z, a + 3 * BLOCK, classes)
        now = tl.maximum(largest, tl.maximum(tl.maximum(x0, x1), tl.maximum(x2, x3)))
        total = total * tl.exp2((largest - now) * LOG2E)
        n = now * LOG2E
        total += tl.exp2(x0 * LOG2E - n) + tl.exp2(x1 * LOG2E - n)
        total += tl.exp2(x2 * LOG2E - n) + tl.exp2(x3 * LOG2E - n)
        if SMOOTHS:
            summed += _real(x0, a, classes) + _real(x1, a + BLOCK, classes)
            summed += _real(x2, a + 2 * BLOCK, classes) + _real(x3, a + 3 * BLOCK, classes)
        largest = now
    most = tl.max(largest, 0)
    lse = most + tl.log(tl.sum(total * tl.exp(largest - most), 0))
    right = tl.load(z + target).to(tl.float32)
    loss = lse - (1 - smoothed) * right
    if SMOOTHS:
        loss -= smoothed * (tl.sum(summed, 0) / classes)
    tl.store(loss_ptr + row, tl.where(counts, loss, 0.0))
    tl.debug_barrier()  # every thread has read the logit of the target before it is overwritten
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        p = tl.exp2(_logits(z, column, classes) * LOG2E - lse * LOG2E)
        if SMOOTHS:
            p -= tl.where(column < classes, smoothed / classes, 0.0)
        tl.store(z + column, tl.where(counts, p, 0.0), mask=column < columns)
    tl.debug_barrier()
    at_target = tl.exp2(right * LOG2E - lse * LOG2E) - smoothed / classes - (1 - smoothed)
    tl.store(z + target, tl.where(counts, at_target, 0.0))


def cross_entropy_rows(z: Tensor, targets: Tensor, classes: int, smoothed: float, left_out: int) -> Tensor:
    """The loss of each row of logits, in float32; the logits become their gradients, 0 in columns of padding."""
    losses = torch.empty(len(z), dtype=torch.float32, device=z.device)
    block = min(BLOCK, triton.next_power_of_2(z.shape[1]))
    warps = max(1, min(16, block // 128))
    with torch.cuda.device_of(z):
        _rows[(len(z),)](
            z, targets, losses, z.stride(0), classes, z.shape[1], smoothed, left_out, BLOCK=block, SMOOTHS=smoothed > 0,
            num_warps=warps,
        )  # fmt: skip
    return losses
