"""The one training loop: forward, loss, backward, clip, update, log, evaluate, save; it resumes exactly."""

import math
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field

import msgspec
import torch
from torch import Tensor

from glassformer.data.batches import Batch, Batches
from glassformer.equations.gradients import global_norm
from glassformer.errors import TrainingError
from glassformer.layers.model import Model
from glassformer.recording import unchecked
from glassformer.training.diagnosis import first_bad_equation
from glassformer.training.objective import Objective
from glassformer.training.optimizer import Updates
from glassformer.training.recipe import Recipe
from glassformer.training.run_folder import RunFolder, Snapshot


@dataclass(frozen=True)
class Log:
    """One line of the record of a run."""

    step: int
    loss: float
    rate: float
    norm: float
    tokens: int
    validation: float | None = None
    seconds: float = field(default=0.0, compare=False)


def train(
    model: Model,
    batches: Batches,
    objective: Objective,
    recipe: Recipe,
    folder: RunFolder | None = None,
    validation: Batches | None = None,
) -> Iterator[Log]:
    """Train a model, a log line at a time; with a folder the run is saved, and goes on where it was stopped."""
    with nullcontext() if folder is None else folder.lock():
        yield from _run_steps(model, batches, objective, recipe, folder, validation)


def _run_steps(
    model: Model,
    batches: Batches,
    objective: Objective,
    recipe: Recipe,
    folder: RunFolder | None,
    validation: Batches | None,
) -> Iterator[Log]:
    updates = Updates(model, recipe)
    torch.manual_seed(recipe.seed)
    done, tokens = _resume(model, batches, updates, folder)
    began = time.perf_counter()
    model.train()
    for step in range(done + 1, recipe.steps + 1):
        parts = [next(batches) for _ in range(recipe.accumulate)]
        loss, count = _backward(model, parts, objective, recipe)
        norm = _clip(model, recipe.clip)
        if not math.isfinite(norm):
            _stop(model, parts, objective, step, folder)
        updates.update(recipe.rate_at(step))
        tokens += count
        last = step == recipe.steps
        held_out = None
        if validation is not None and (last or step % recipe.evaluate_every == 0):
            held_out = evaluate_loss(model, validation, objective)
        log = Log(step, loss, recipe.rate_at(step), norm, tokens, held_out, time.perf_counter() - began)
        shown = last or step % recipe.log_every == 0 or held_out is not None
        if shown and folder is not None:
            folder.log({key: value for key, value in vars(log).items() if key != "seconds"})
        if folder is not None and (last or step % recipe.save_every == 0):
            folder.save(_snapshot(step, tokens, model, updates, batches))
        if shown:
            yield log
    model.eval()


def _backward(model: Model, parts: list[Batch], objective: Objective, recipe: Recipe) -> tuple[float, int]:
    """Gradients of the mean loss over all tokens of all parts: however it is cut, the batch is one batch."""
    total, counts = 0.0, 0
    for batch in parts:
        with unchecked():  # a bad number is for the diagnosis, which names the equation that made it
            loss, count = objective(model, batch, recipe.smoothing)
        loss.backward()
        total, counts = total + loss.detach(), counts + count
    share = 1 / float(max(int(counts), 1))
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.mul_(share)
    return float(total) * share, int(counts)


def _clip(model: Model, limit: float) -> float:
    """Shorten all gradients together to the limit; the length they had."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = float(global_norm(gradients))
    if math.isfinite(norm) and norm > limit:
        for gradient in gradients:
            gradient.mul_(limit / norm)
    return norm


def _stop(model: Model, parts: list[Batch], objective: Objective, step: int, folder: RunFolder | None) -> None:
    """End the run before the weights are touched, and say which equation broke."""
    found = (first_bad_equation(model, part, objective) for part in parts)
    why = next(filter(None, found), "a replay under the tape is finite, so precision or the order of sums made it bad")
    kept = f"; the last good checkpoint is step {folder.steps()[-1]}" if folder and folder.steps() else ""
    raise TrainingError(f"step {step}: the loss or its gradient is not finite, and nothing was updated: {why}{kept}")


@torch.no_grad()
def evaluate_loss(model: Model, batches: Batches, objective: Objective) -> float:
    """Mean loss over every token of one pass, without smoothing and without dropout."""
    before = model.training
    model.eval()
    total, count = 0.0, 0
    for batch in batches.once():
        loss, tokens = objective(model, batch, 0.0)
        total, count = total + float(loss), count + int(tokens)
    model.train(before)
    return total / max(count, 1)


def _snapshot(step: int, tokens: int, model: Model, updates: Updates, batches: Batches) -> Snapshot:
    state = {
        "tokens": tokens,
        "data": batches.state(),
        "random": torch.get_rng_state().numpy().tobytes().hex(),
        "torch": str(torch.__version__),
        "threads": torch.get_num_threads(),
    }
    return Snapshot(step, {name: p.detach() for name, p in model.state_dict().items()}, updates.state(), state)


def _resume(model: Model, batches: Batches, updates: Updates, folder: RunFolder | None) -> tuple[int, int]:
    """Go to where the newest whole checkpoint stands; the steps done and the tokens seen."""
    snapshot = folder.latest() if folder is not None else None
    if folder is None:
        return 0, 0
    folder.rewind_log(0 if snapshot is None else snapshot.step)
    if snapshot is None:
        return 0, 0
    model.load_state_dict(snapshot.model)
    updates.resume(snapshot.optimizer)
    batches.resume(msgspec.convert(snapshot.state["data"], dict[str, int]))
    torch.set_rng_state(_bytes(str(snapshot.state["random"])))
    return snapshot.step, int(str(snapshot.state["tokens"]))


def _bytes(text: str) -> Tensor:
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)
