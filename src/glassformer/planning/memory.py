"""Bytes of a training step on each device: what every strategy holds, and what of a step is alive at once."""

from torch import nn

from glassformer.layers.block import Block
from glassformer.layers.model import Model
from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.figures import Memory, WeightBytes, Workload
from glassformer.planning.kernel_data import Kernel, Lifetimes, RecordedStep
from glassformer.planning.kernels import checkpointed, eager, fused, with_loss_in_pieces
from glassformer.planning.timeline import peak
from glassformer.training.estimate import KERNELS, beside_tensors
from glassformer.training.objective import Objective
from glassformer.training.recipe import MOMENTS

WORKSPACE = 100_000_000  # bytes that the libraries of a GPU take from torch's memory for their own use
GATHERED = 2  # blocks whose weights are whole at once with FSDP: the one that computes, and the next


def as_run(step: RecordedStep, objective: Objective, device: DeviceSpec) -> tuple[list[Kernel], Lifetimes]:
    """The kernels of a step as training runs them there, and what is in memory meanwhile."""
    if device.compiles:
        kernels, lifetimes = fused(step, by_block=objective.uneven and any(tag.block for tag in step.tags))
        return kernels, with_loss_in_pieces(step, lifetimes, "cuda")
    kernels, lifetimes = eager(step)
    return kernels, with_loss_in_pieces(step, lifetimes, "cpu")


def weights_of(model: Model) -> WeightBytes:
    """The bytes of a model's weights, shared ones counted once."""
    blocks = [part for part in model.modules() if isinstance(part, Block)]
    inside = {id(weight): weight.nbytes for block in blocks for weight in block.parameters()}
    whole = _bytes(model)
    trained = sum(weight.nbytes for weight in model.parameters() if weight.requires_grad)
    return WeightBytes(whole, trained, max(map(_bytes, blocks), default=0), whole - sum(inside.values()))


def _bytes(module: nn.Module) -> int:
    return sum(weight.nbytes for weight in module.parameters())


def memory(
    weights: WeightBytes, step: RecordedStep, lifetimes: Lifetimes, workload: Workload, device: DeviceSpec, uneven: bool
) -> Memory:
    """What training holds at its peak, on one device and on each of several."""
    activations, less = (
        max(peak(step, each) - weights.trained, 0)
        for each in (lifetimes, checkpointed(step, lifetimes, device.compiles))
    )
    activations = less if workload.activation_checkpointing else activations
    saved = activations - less
    optimizer = weights.trained * MOMENTS[workload.optimizer]
    held = weights.whole + weights.trained + optimizer
    overhead = WORKSPACE
    if device.kind == "cpu":
        overhead = beside_tensors(held + activations, uneven) + KERNELS
        saved = beside_tensors(held + activations, uneven) - beside_tensors(held + activations - saved, uneven) + saved
    alone, devices = held + activations + overhead, workload.devices
    gathered = weights.outside + GATHERED * weights.block
    return Memory(
        weights=weights.whole,
        gradients=weights.trained,
        optimizer=optimizer,
        activations=activations,
        activations_checkpointed=less,
        saved=saved,
        overhead=overhead,
        replicated=alone + (weights.trained if devices > 1 else 0),  # the buckets in which DDP exchanges gradients
        sharded=alone - held + -(-held // devices) + (gathered if devices > 1 else 0),
    )


def required(memory: Memory, workload: Workload) -> int:
    """The bytes that the workload's strategy takes on each device."""
    sharded = workload.strategy == "fsdp" and workload.devices > 1
    return memory.sharded if sharded else memory.replicated
