"""What to learn: which tensors of a batch a model is given, and which it should have answered."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.data.batches import IGNORE, Batch
from glassformer.equations.losses import cross_entropy, symmetric_kl
from glassformer.layers.model import Model


@dataclass(frozen=True)
class Objective:
    """Names of a batch's tensors: those the model takes, in its order, and the right answers."""

    inputs: tuple[str, ...]
    targets: str

    @property
    def uneven(self) -> bool:
        """Whether batches come in many shapes: those that say which of their tokens are padding."""
        return "attention_mask" in self.inputs

    def tokens(self, batch: Batch) -> int:
        """Tokens that the model is given, padding left out; counted where the batch was made."""
        if "attention_mask" not in batch:
            return batch[self.inputs[0]].numel()
        written = int((batch["targets"] != IGNORE).sum()) if "target" in batch else 0
        return int(batch["attention_mask"].sum()) + written

    def check(self, model: Model, batch: Batch) -> None:
        """Raise on a batch the model cannot take; done where the batch was made, before it goes to a device."""
        model.check(*(batch[name] for name in self.inputs))


NEXT_TOKEN = Objective(("ids",), "targets")
NEXT_TARGET_TOKEN = Objective(("source", "target", "attention_mask"), "targets")
HIDDEN_TOKENS = Objective(("ids",), "targets")
CLASSES = Objective(("ids", "attention_mask"), "labels")


def choices(model: Model, objective: Objective) -> int:
    """How many answers a model chooses among: classes, or the tokens of its vocabulary."""
    return model.config.classes if objective is CLASSES else model.config.vocab


class LossModule(nn.Module):
    """A model and its objective as one module: a batch in, the summed loss and what it is summed over out.

    Sums, not means, so that batches of any sizes, on any number of devices, join to one. Where `r_drop`
    is above zero the model learns from two passes, each with its own dropout, whose answers should agree.
    """

    def __init__(self, model: Model, objective: Objective, r_drop: float = 0.0) -> None:
        super().__init__()
        self.model, self.objective, self.r_drop = model, objective, r_drop

    def forward(self, batch: Batch, label_smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
        """The loss of a batch and the number of answers that count."""
        inputs, answers = [batch[name] for name in self.objective.inputs], batch[self.objective.targets]
        counts = answers != IGNORE
        if not self.r_drop or not self.training:
            return _surprise(_wide(self.model(*inputs)), answers, label_smoothing), counts.sum()
        one, other = _wide(self.model(*(torch.cat([tensor, tensor]) for tensor in inputs))).chunk(2)
        apart = (symmetric_kl(one, other) * counts).sum()
        both = _surprise(one, answers, label_smoothing) + _surprise(other, answers, label_smoothing)
        return (both + self.r_drop * apart) / 2, counts.sum()


def _wide(scores: Tensor) -> Tensor:
    """Scores with the digits that a long sum needs."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def _surprise(scores: Tensor, answers: Tensor, smoothing: float) -> Tensor:
    return cross_entropy(scores, answers, smoothing=smoothing, ignore=IGNORE, reduction="sum")
