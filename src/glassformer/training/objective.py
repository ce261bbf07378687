"""What a model is trained on: the tensors of a batch it reads, the targets, and the loss between them."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import torch
from torch import Tensor, nn
from torch.func import functional_call

from glassformer.data.batches import IGNORE, WEIGHTS, Batch
from glassformer.data.packed_pairs import BOUNDS, packed_tokens, unpacked
from glassformer.equation import no_checks
from glassformer.equations.linear_cross_entropy import linear_cross_entropy
from glassformer.equations.losses import cross_entropy, symmetric_kl
from glassformer.equations.matrices import transpose
from glassformer.equations.similarity import inner_product
from glassformer.layers.model import Model, TokenPredictor
from glassformer.recording import Tape

HALF = (torch.float16, torch.bfloat16)  # a sum of losses is too long for these
FORWARD_AND_BACKWARD = 3  # the backward pass takes about twice the operations of the forward pass


@runtime_checkable
class PackedInput(Protocol):
    """How texts that share a row are kept apart: what a model reads in place of a mask."""

    def twice(self) -> Self:
        """The same for every row of a batch and the same rows once more."""
        ...


Input = Tensor | PackedInput | None  # of a model


# From model, inputs, targets, their weights if they have some, `label_smoothing` and `r_drop` to the summed loss and
# the number of targets, or the sum of their weights. Sums, not means, so that batches of any size on any number of
# devices add up to one.
Loss = Callable[[Model, Sequence[Tensor], Tensor, Tensor | None, float, float], tuple[Tensor, Tensor]]


def cross_entropy_loss(
    model: Model,
    inputs: Sequence[Input],
    targets: Tensor,
    weights: Tensor | None,
    label_smoothing: float,
    r_drop: float,
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of logits and targets, and the number of targets that are not ignored, or the sum of their weights.

    Where `r_drop` is above 0, two passes with different dropout are averaged, plus their symmetric KL divergence
    times `r_drop` (R-Drop: Liang et al., 2021).
    """
    counts = targets != IGNORE if weights is None else weights
    if not r_drop:
        return _one_pass(model, inputs, targets, weights, label_smoothing), counts.sum()
    one, other = _upcast(model(*map(_twice, inputs))).chunk(2)
    divergence = (symmetric_kl(one, other) * counts).sum()
    losses = [summed_cross_entropy(each, targets, weights, label_smoothing) for each in (one, other)]
    return (losses[0] + losses[1] + r_drop * divergence) / 2, counts.sum()


def _one_pass(
    model: Model, inputs: Sequence[Input], targets: Tensor, weights: Tensor | None, label_smoothing: float
) -> Tensor:
    """The summed loss; without weights, by an equation that never holds the logits of all tokens."""
    output = model.output_weights() if isinstance(model, TokenPredictor) and weights is None else None
    if not isinstance(model, TokenPredictor) or output is None or output[0].dtype in HALF:
        return summed_cross_entropy(model(*inputs), targets, weights, label_smoothing)
    weight, bias = (output[0] if model.output is None else transpose(output[0])), output[1]
    return linear_cross_entropy(model.hidden_states(*inputs), weight, targets, bias, label_smoothing, IGNORE)


def _twice(value: Input) -> Input:
    """An input for every row of a batch and the same rows once more."""
    if isinstance(value, Tensor):
        return torch.cat([value, value])
    return None if value is None else value.twice()


def _upcast(logits: Tensor) -> Tensor:
    """Logits in float32 or finer, which a long sum needs."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def summed_cross_entropy(logits: Tensor, targets: Tensor, weights: Tensor | None, label_smoothing: float) -> Tensor:
    """Cross-entropy of all targets in float32 or finer, each by its weight if there are weights."""
    logits = _upcast(logits)
    if weights is None:
        return cross_entropy(logits, targets, label_smoothing=label_smoothing, ignore_index=IGNORE, reduction="sum")
    each = cross_entropy(logits, targets, label_smoothing=label_smoothing, ignore_index=IGNORE, reduction="none")
    return inner_product(weights.flatten().to(each.dtype), each.flatten())


def uniform_over_vocab(model: Model) -> float:
    """The cross-entropy of a uniform guess over the vocabulary."""
    return math.log(model.config.vocab)


@dataclass(frozen=True)
class Objective:
    """Names of a batch's tensors, those the model reads in its order and the targets, and the loss between them.

    `baseline` is the loss of a model that has learned nothing, where that is known: a loss far above it is diverging.
    `sample` describes what a model does with one example, for the log of a run. `positions` counts the positions of a
    batch that is not made of tokens, such as the patches of pictures. `packing` makes of the bounds of a packed batch,
    and of `longest`, the most tokens of a text in it, what the model reads in place of a mask.
    """

    inputs: tuple[str, ...]
    targets: str
    loss: Loss = cross_entropy_loss
    baseline: Callable[[Model], float] | None = uniform_over_vocab
    sample: Callable[[Model], str | None] | None = None
    positions: Callable[[Model, Batch], int] | None = None
    packing: Callable[[Tensor, Tensor, int | None], PackedInput] | None = None
    longest: int | None = None

    @property
    def uneven(self) -> bool:
        """Whether training batches come in many shapes: those with padding."""
        return "attention_mask" in self.inputs and self.longest is None

    def read(self, batch: Batch) -> list[Tensor]:
        """What the model reads of a batch: the inputs, and for a packed one its packing in place of a mask."""
        if self.packing is None or BOUNDS[0] not in batch:
            return [batch[name] for name in self.inputs]
        packing = self.packing(batch[BOUNDS[0]], batch[BOUNDS[1]], self.longest)
        return [*(batch.get(name) for name in self.inputs), packing]  # pyright: ignore - losses on pairs read it

    def tokens(self, model: Model, batch: Batch) -> int:
        """Tokens that the model reads, without padding; counted before the batch goes to a device."""
        if self.positions is not None:
            return self.positions(model, batch)
        if BOUNDS[0] in batch:
            return packed_tokens(batch)
        if "attention_mask" not in batch:
            return batch[self.inputs[0]].numel()
        decoder_tokens = int((batch[self.targets] != IGNORE).sum()) if "target" in self.inputs else 0
        return int(batch["attention_mask"].sum()) + decoder_tokens

    def check(self, model: Model, batch: Batch) -> None:
        """Raise on a batch the model cannot take; done before the batch goes to a device."""
        model.check(*self.read(batch))


NEXT_TOKEN = Objective(inputs=("ids",), targets="targets")  # of a language model


class LossModule(nn.Module):
    """A model and its objective as one module: a batch in, the summed loss and the number of targets out."""

    def __init__(self, model: Model, objective: Objective, r_drop: float = 0.0) -> None:
        super().__init__()
        self.model, self.objective, self.r_drop = model, objective, r_drop

    def forward(self, batch: Batch, label_smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
        """The loss that the objective names; R-Drop is for training only."""
        inputs, targets = self.objective.read(batch), batch[self.objective.targets]
        r_drop = self.r_drop if self.training else 0.0
        return self.objective.loss(self.model, inputs, targets, batch.get(WEIGHTS), label_smoothing, r_drop)


def forward_operations(loss_module: LossModule, batch: Batch) -> Counter[str]:
    """Operations of a forward pass on a batch such as this one, by module; nothing is computed."""
    batch = unpacked(batch)  # a packed row as a whole counts pairs of tokens that are never compared
    inputs = {name: value.to("meta") for name, value in batch.items()}
    weights = {name: torch.empty(value.shape, device="meta") for name, value in loss_module.state_dict().items()}
    with torch.no_grad(), no_checks(), Tape() as tape:
        functional_call(loss_module, weights, (inputs,))
    found = Counter[str]()
    for step in tape.steps:
        found[step.module] += step.equation.operations(**step.inputs)
    return found


def operations_per_token(loss_module: LossModule, batch: Batch) -> float:
    """Operations, forward and backward, for each token of a batch such as this one; nothing is computed."""
    tokens = max(loss_module.objective.tokens(loss_module.model, unpacked(batch)), 1)
    return FORWARD_AND_BACKWARD * forward_operations(loss_module, batch).total() / tokens
