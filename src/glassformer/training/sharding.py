"""Weights in shards (FSDP2): torch's modules for it take seconds to import, so only runs of several processes do."""

from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from glassformer.layers.block import Block


def shard(module: nn.Module) -> nn.Module:
    """The module with its weights in shards, block by block."""
    for part in module.modules():
        if isinstance(part, Block):
            fully_shard(part)
    fully_shard(module, reshard_after_forward=True)  # else its weights stay whole after an evaluation
    return module


def reduce_gradients(module: nn.Module, last: bool) -> bool:
    """Have the gradients of a sharded module reduced only with the last part of a batch; False for any other module."""
    if not isinstance(module, FSDPModule):
        return False
    module.set_requires_gradient_sync(last)
    return True


def is_shard(tensor: Tensor) -> bool:
    """Whether a tensor is this process's shard of a larger one."""
    return isinstance(tensor, DTensor)


def local(tensor: Tensor) -> Tensor:
    """The part of a tensor that this process holds."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """The whole of a tensor; every process has to take part."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def scattered_like(tensor: Tensor, like: Tensor) -> Tensor:
    """A whole tensor, in shards as another one is."""
    if isinstance(like, DTensor) and tensor.shape == like.shape and tensor.dim() > 0:
        return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
    return tensor
