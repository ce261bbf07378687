"""Bytes of a training step on each device: what every strategy holds, and what of a step is alive at once."""

from collections import Counter
from dataclasses import replace

import torch
from torch import nn

from glassformer.equations.muon import orthogonalize
from glassformer.kernel_calls import pretending
from glassformer.layers.block import Block
from glassformer.layers.model import Model
from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.figures import Memory, WeightBytes, Workload
from glassformer.planning.kernel_data import BACKWARD, Kernel, Lifetimes, RecordedStep
from glassformer.planning.kernels import checkpointed, eager, fused, with_loss_in_pieces
from glassformer.planning.shortened import pretended
from glassformer.planning.timeline import peak
from glassformer.training.estimate import KERNELS, beside_tensors
from glassformer.training.muon import BatchedMuon
from glassformer.training.objective import Objective
from glassformer.training.optimizer import Optimizers
from glassformer.training.recipe import MOMENTS, Recipe

WORKSPACE = 100_000_000  # bytes that the libraries of a GPU take from torch's memory for their own use
GATHERED = 2  # blocks whose weights are whole at once with FSDP: the one that computes, and the next


def as_run(step: RecordedStep, objective: Objective, device: DeviceSpec) -> tuple[list[Kernel], Lifetimes]:
    """The kernels of a step as training runs them there, and what is in memory meanwhile."""
    if device.compiles:
        kernels, lifetimes = fused(step, by_block=objective.uneven and any(tag.block for tag in step.tags))
        return kernels, with_loss_in_pieces(step, lifetimes, "cuda")
    kernels, lifetimes = eager(step)
    return kernels, with_loss_in_pieces(step, lifetimes, "cpu")


def weights_of(model: Model, optimizer: str = "adamw") -> WeightBytes:
    """The bytes of a model's weights, shared ones counted once, and what an optimizer computes with them."""
    blocks = [part for part in model.modules() if isinstance(part, Block)]
    inside = {id(weight): weight.nbytes for block in blocks for weight in block.parameters()}
    whole = _bytes(model)
    trained = sum(weight.nbytes for weight in model.parameters() if weight.requires_grad)
    largest, outside = max(map(_bytes, blocks), default=0), whole - sum(inside.values())
    return WeightBytes(whole, trained, largest, outside, _orthogonalization(model) if optimizer == "muon" else 0)


def _orthogonalization(model: Model) -> int:
    """Operations by which Muon makes the updates of its matrices orthogonal, by the cost of that equation."""
    with pretending(torch.device("cpu")):
        made = Optimizers(pretended(model), Recipe(optimizer="muon")).optimizers
    groups = [group for each in made if isinstance(each, BatchedMuon) for group in each.param_groups]
    shapes = Counter(tuple(matrix.shape) for group in groups for matrix in group["params"])
    return sum(count * orthogonalize.operations(shape) for shape, count in shapes.items())


def _bytes(module: nn.Module) -> int:
    return sum(weight.nbytes for weight in module.parameters())


def memory(
    weights: WeightBytes, step: RecordedStep, lifetimes: Lifetimes, workload: Workload, device: DeviceSpec, uneven: bool
) -> Memory:
    """What training holds at its peak, on one device and on each of several."""
    again = checkpointed(step, lifetimes, device.compiles)
    activations, less = (max(peak(step, each) - weights.trained, 0) for each in (lifetimes, again))
    shards = workload.devices > 1
    sharded, sharded_less = (shard_bytes(weights, step, each, workload) if shards else 0 for each in (lifetimes, again))
    if workload.activation_checkpointing:
        activations, sharded = less, sharded_less
    optimizer = weights.trained * MOMENTS[workload.optimizer]
    held = weights.whole + weights.trained + optimizer

    def in_all(tensors: int) -> int:
        return tensors + (beside_tensors(tensors, uneven) + KERNELS if device.kind == "cpu" else WORKSPACE)

    alone = in_all(held + activations)
    return Memory(
        weights=weights.whole,
        gradients=weights.trained,
        optimizer=optimizer,
        activations=activations,
        activations_checkpointed=less,
        saved=alone - in_all(held + less),
        overhead=alone - held - activations,
        replicated=alone + (weights.trained if shards else 0),  # the buckets of DDP's gradients
        sharded=in_all(sharded) if shards else alone,
        saved_sharded=in_all(sharded) - in_all(sharded_less) if shards else alone - in_all(held + less),
    )


def shard_bytes(weights: WeightBytes, step: RecordedStep, lifetimes: Lifetimes, workload: Workload) -> int:
    """The tensors of a device with FSDP: its part of what is held, what is gathered, and the peak of the step.

    As training shards a model, without a policy for mixed precision: weights are gathered in float32, those outside of
    blocks and of two blocks at a time. The copies in bfloat16 that autocast makes of them are whole, and live until
    the backward pass has read them. The gradients of a block are whole until its backward pass ends.
    """
    held = weights.whole + weights.trained * (1 + MOMENTS[workload.optimizer])
    gathered = weights.outside + GATHERED * weights.block
    return -(-held // workload.devices) + gathered + peak(step, _reduced(step, lifetimes))


def _reduced(step: RecordedStep, lifetimes: Lifetimes) -> Lifetimes:
    """Lifetimes where the gradients of a block are freed when its backward pass ends, and not with the step."""
    ends = {tag.block: at + 1 for at, tag in enumerate(step.tags) if tag.block and tag.phase == BACKWARD}
    last = len(step.calls)
    died = [
        ends.get(step.tags[born].block, end) if born >= 0 and end == last else end
        for born, end in zip(lifetimes.born, lifetimes.died, strict=True)
    ]
    return replace(lifetimes, died=died)


def required(memory: Memory, workload: Workload, checkpointed: bool = False) -> int:
    """The bytes that the workload's strategy takes on each device; with activation checkpointing if it is asked for."""
    if workload.sharded:
        return memory.sharded - (memory.saved_sharded if checkpointed else 0)
    return memory.replicated - (memory.saved if checkpointed else 0)
