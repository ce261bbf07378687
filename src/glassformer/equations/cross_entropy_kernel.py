# pyright: basic, reportMissingImports=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false
"""A Triton kernel for cross-entropy: each row of logits is read twice, and becomes its own gradient."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 2048  # columns that a program holds at once


@triton.jit
def _rows(z_ptr, target_ptr, loss_ptr, stride, classes, columns, smoothed, left_out, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    z = z_ptr + row * stride
    target = tl.load(target_ptr + row)
    counts = target != left_out
    target = tl.where(counts, target, 0)
    # Each lane keeps its own maximum and sum: a reduction in every turn of the loop would wait for all threads.
    largest = tl.full((BLOCK,), -1e38, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    summed = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, classes, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(z + column, mask=column < classes, other=-float("inf")).to(tl.float32)
        now = tl.maximum(largest, x)
        total = total * tl.exp(largest - now) + tl.exp(x - now)
        summed += tl.where(column < classes, x, 0.0)
        largest = now
    most = tl.max(largest, 0)
    lse = most + tl.log(tl.sum(total * tl.exp(largest - most), 0))
    right = tl.load(z + target).to(tl.float32)
    loss = lse - (1 - smoothed) * right - smoothed * (tl.sum(summed, 0) / classes)
    tl.store(loss_ptr + row, tl.where(counts, loss, 0.0))
    tl.debug_barrier()  # every thread has read the logit of the target before it is overwritten
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(z + column, mask=column < classes, other=-float("inf")).to(tl.float32)
        change = tl.exp(x - lse) - smoothed / classes - tl.where(column == target, 1 - smoothed, 0.0)
        change = tl.where((column < classes) & counts, change, 0.0)
        tl.store(z + column, change, mask=column < columns)


def cross_entropy_rows(z: Tensor, targets: Tensor, classes: int, smoothed: float, left_out: int) -> Tensor:
    """The loss of each row of logits, in float32; the logits become their gradients, 0 in columns of padding."""
    losses = torch.empty(len(z), dtype=torch.float32, device=z.device)
    block = min(BLOCK, triton.next_power_of_2(z.shape[1]))
    warps = max(1, min(8, block // 256))
    with torch.cuda.device(z.device) if z.is_cuda else torch.device(z.device):
        _rows[(len(z),)](
            z, targets, losses, z.stride(0), classes, z.shape[1], smoothed, left_out, BLOCK=block, num_warps=warps
        )
    return losses
