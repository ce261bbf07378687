"""A finished training run beside its plan, in one sentence."""

import torch

from glassformer.planning.devices import find_device
from glassformer.planning.plan import plan
from glassformer.training.estimate import largest_batch, readable
from glassformer.training.run import Run
from glassformer.training.step import Log


def beside_run(run: Run, last: Log) -> str:
    """Tokens per second of a run, and on a GPU the memory of its largest batch, planned and measured.

    Batches with fewer tokens than the largest have fewer per second, so a task with padding falls short of its plan.
    """
    kind = run.device.device.type
    batch = largest_batch(run.data.batches, run.objective)
    first = batch[run.objective.inputs[0]]
    reads = not first.is_floating_point()
    found = plan(
        run.model.config,
        device=find_device(kind),
        batch=len(first),
        length=first.shape[1] if reads and first.dim() > 1 else None,
        dtype="bfloat16" if run.device.bf16 else "float32",
        optimizer=run.settings.recipe.optimizer,
        strategy=run.settings.run.strategy,
        devices=run.data.batches.world,
    )
    speed = f"{found.time.tokens_per_second:,.0f} tokens/s planned, {last.speed:,.0f} measured"
    if kind != "cuda":
        return f"plan: {speed}"
    peak = torch.cuda.max_memory_allocated(run.device.device)
    return f"plan: {speed}; peak memory {readable(found.memory.peak)} planned, {readable(peak)} measured"
