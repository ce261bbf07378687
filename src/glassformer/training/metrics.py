"""The predictions of a model over a data set, which metrics are computed from."""

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.data.batches import IGNORE, Batches
from glassformer.equation import no_checks
from glassformer.equations.losses import cross_entropy, perplexity
from glassformer.equations.sampling import greedy
from glassformer.errors import ModelError
from glassformer.layers.model import Model
from glassformer.training.objective import Objective
from glassformer.training.task import Progress


@dataclass(frozen=True)
class Predictions:
    """Every target that counts: its loss in nats, in double precision, and the likeliest class."""

    losses: Tensor
    guesses: Tensor
    targets: Tensor

    @property
    def loss(self) -> float:
        """The mean loss."""
        return float(self.losses.mean())

    @property
    def perplexity(self) -> float:
        """The perplexity, e to the mean loss."""
        return float(perplexity(-self.losses))


@torch.no_grad()
def predict(model: Model, batches: Batches, objective: Objective, progress: Progress) -> Predictions:
    """Predict every target of the data, in order; results stay on the device until the end, so that it never waits."""
    device = next(model.parameters()).device
    before = model.training
    model.eval()
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    try:
        for batch in progress(batches.once(), "batches evaluated"):
            objective.check(model, batch)
            here = {name: part.to(device, non_blocking=True) for name, part in batch.items()}
            targets = here[objective.targets]
            with no_checks():
                logits = model(*(here[name] for name in objective.inputs))
                losses = cross_entropy(logits.float(), targets, ignore=IGNORE, reduction="none")
                found.append((losses.flatten(), greedy(logits).flatten(), targets.flatten()))
    finally:
        model.train(before)
    losses, guesses, targets = (torch.cat(parts).cpu() for parts in zip(*found, strict=True))
    counted = targets != IGNORE
    losses = losses[counted].double().clamp_min(0)  # rounding may put a certain token slightly below
    if not losses.numel():
        raise ModelError("no token of the data counts, so there is no loss")
    if not losses.isfinite().all():
        raise ModelError(f"the loss is not finite on {int((~losses.isfinite()).sum())} of {len(losses):,} targets")
    return Predictions(losses, guesses[counted], targets[counted])
