"""Two runs beside each other: what a change does to the prediction, and which head matters most to it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.equations.information import kl_divergence
from glassformer.equations.softmax import softmax
from glassformer.errors import TapeError
from glassformer.layers.causal_lm import CausalLM
from glassformer.probes.attention_steps import attention_steps
from glassformer.probes.interventions import head_attribution, on_head, patch
from glassformer.probes.loss_targets import LossTarget
from glassformer.probes.trace import Trace, loss_of
from glassformer.suggestions import did_you_mean

if TYPE_CHECKING:
    from glassformer.decoding.predictions import Predictor


@dataclass(frozen=True)
class ComparedCandidate:
    """A token or label with its probability and its rank, 0 for the most likely, before and after."""

    id: int
    text: str
    before: float
    after: float
    rank_before: int
    rank_after: int


@dataclass(frozen=True)
class Comparison:
    """Two predictions at a position: their KL divergence in nats, and the candidates that lead in either."""

    position: int | None
    kl: float
    candidates: list[ComparedCandidate]


@dataclass(frozen=True)
class AttentionPart:
    """An attention of a model, the step of its output by head, and the first-order rise of the loss for each head."""

    module: str
    step: str
    heads: int
    attribution: list[float] | None


@dataclass(frozen=True)
class Ablation:
    """What switching off one head does: to the prediction in nats, to the best token, and to the loss."""

    module: str
    head: int
    kl: float
    best: str
    best_before: float
    best_after: float
    loss: float | None


def compare(before: "Predictor", after: "Predictor", position: int | None = None, count: int = 8) -> Comparison:
    """The predictions of two runs at a position, by default the last; the first `count` candidates of each."""
    old, new = before.probabilities(position), after.probabilities(position)
    if old.shape != new.shape:
        raise TapeError(f"the runs give {len(old)} and {len(new)} candidates: they are of different models")
    ranks = [_ranks(each) for each in (old, new)]
    chosen = [id for id in range(len(old)) if min(int(rank[id]) for rank in ranks) < count] if count else []
    found = [
        ComparedCandidate(id, before.text(id), float(old[id]), float(new[id]), int(ranks[0][id]), int(ranks[1][id]))
        for id in chosen
    ]
    found.sort(key=lambda each: (-max(each.before, each.after), each.id))
    return Comparison(before.at(position, count=1).position, _divergence(old, new), found)


def least_sure(run: "Predictor") -> int | None:
    """The position of the flattest prediction, where a change shows most; None if the run predicts no next tokens.

    The first token of a language model is left out where there are others: nothing stands before it.
    """
    if run.target != "next" or not run.positions:
        return None
    skipped = 1 if isinstance(run.trace.model, CausalLM) and len(run.positions) > 1 else 0
    logits = run.logits[skipped:].float()
    entropy = torch.special.entr(softmax(logits)).sum(-1)
    return int(entropy.nan_to_num(-1.0).argmax()) + skipped


def attention_parts(trace: Trace) -> list[AttentionPart]:
    """Every attention of a run."""
    rises = {} if trace.gradients is None else head_attribution(trace)
    return [
        AttentionPart(
            module=trace.names.modules.get(step.module, step.module),
            step=trace.names[step.path],
            heads=step.output.shape[1],
            attribution=rises[trace.names[step.path]].tolist() if rises else None,
        )
        for step in attention_steps(trace.tape.steps)
    ]


def ablations(
    run: "Predictor", module: str, position: int | None = None, backward: str | LossTarget | None = None
) -> Iterator[Ablation]:
    """What switching off each head of an attention does to the prediction at a position."""
    parts = {part.module: part for part in attention_parts(run.trace)}
    if module not in parts:
        raise TapeError(f"no attention is called {module!r}; {did_you_mean(module, parts)}")
    old = run.probabilities(position)
    best = int(old.argmax())
    for head in range(parts[module].heads):
        output = patch(run.trace, {parts[module].step: on_head(head, torch.zeros_like)})
        new = replace(run, trace=replace(run.trace, output=output)).probabilities(position)
        yield Ablation(
            module=module,
            head=head,
            kl=_divergence(old, new),
            best=run.text(int(new.argmax())),
            best_before=float(old[best]),
            best_after=float(new[best]),
            loss=None if backward is None else float(loss_of(backward, output, run.trace.inputs)),
        )


def _divergence(old: Tensor, new: Tensor) -> float:
    return max(0.0, float(kl_divergence(old.double(), new.double())))  # rounded probabilities sum to nearly one


def _ranks(probabilities: Tensor) -> Tensor:
    return probabilities.argsort(descending=True, stable=True).argsort()
