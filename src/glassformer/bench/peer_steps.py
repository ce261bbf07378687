"""The training step of nanoGPT's loop, for any model that returns logits and loss, and the batches it reads."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from jaxtyping import Integer
from torch import Tensor, nn

from glassformer.bench.measure import Step
from glassformer.training.device import Device

Tokens = Integer[np.ndarray, " tokens"]
LAYERS = {  # of a block: our names, and those of GPT-2 in other libraries
    "attention_norm": "ln_1",
    "attention.qkv": "attn.c_attn",
    "attention.output": "attn.c_proj",
    "feed_forward_norm": "ln_2",
    "feed_forward.up": "mlp.c_fc",
    "feed_forward.down": "mlp.c_proj",
}


def next_batch(tokens: Tokens, rows: int, length: int, device: Device) -> tuple[Tensor, Tensor]:
    """Random windows and their targets, made and moved as `get_batch` of its train.py does."""
    starts = torch.randint(len(tokens) - length, (rows,))
    x, y = (
        torch.stack([torch.from_numpy(tokens[i + more : i + more + length].astype(np.int64)) for i in starts.tolist()])
        for more in (0, 1)
    )
    if device.device.type == "cuda":
        return tuple(part.pin_memory().to(device.device, non_blocking=True) for part in (x, y))  # pyright: ignore
    return x.to(device.device), y.to(device.device)


def autocast(device: Device) -> AbstractContextManager[object]:
    """Autocast in the precision that ours has."""
    return torch.autocast(device.device.type, torch.bfloat16) if device.bf16 else nullcontext()


def gpt_step(
    model: Callable[..., tuple[Tensor, Tensor]],
    weights: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Callable[[], tuple[Tensor, Tensor]],
    device: Device,
) -> Step:
    """One step of nanoGPT's loop: the next batch is fetched while the device computes, nothing waits for the loss."""
    waiting = [batch()]

    def step() -> None:
        x, y = waiting.pop()
        with autocast(device):
            _, loss = model(x, y)
        waiting.append(batch())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
