"""What to go backward from: a loss made of equations from what a model says."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
from torch import Tensor

from glassformer.data.batches import IGNORE
from glassformer.equations.losses import cross_entropy
from glassformer.equations.sequences import select_position
from glassformer.equations.similarity import cosine_similarity
from glassformer.errors import TapeError

Inputs: TypeAlias = Mapping[str, object]
LossTarget: TypeAlias = Callable[[Tensor, Inputs], Tensor]


def next_tokens(scores: Tensor, inputs: Inputs) -> Tensor:
    """The mean loss of every token given those before it; of a translator, of every target token."""
    ids = inputs.get("target", inputs.get("ids"))
    if not isinstance(ids, Tensor) or scores.dim() != 3 or scores.shape[:2] != ids.shape:
        raise TapeError(f"next: the model gives {list(scores.shape)}, wanted scores for each token that went in")
    if ids.shape[1] < 2:
        raise TapeError("next: there is one token and no next one, wanted at least two")
    following = ids[:, 1:]
    if "ids" in inputs and isinstance(keep := inputs.get("attention_mask"), Tensor):
        following = following.masked_fill(~keep[:, 1:], IGNORE)
    targets = torch.cat([following, torch.full_like(ids[:, :1], IGNORE)], 1)
    return cross_entropy(scores, targets, ignore=IGNORE)


def given_token(id: int, place: int = -1) -> LossTarget:
    """The loss of one token as the next one after a place, the last if left out."""

    def aim(scores: Tensor, inputs: Inputs) -> Tensor:
        """The loss of this token there."""
        del inputs
        if scores.dim() != 3 or not -scores.shape[1] <= place < scores.shape[1]:
            raise TapeError(f"token: the model gives {list(scores.shape)}, which has no scores at place {place}")
        return _loss_of(select_position(scores, place), id, "token")

    return aim


def given_class(id: int) -> LossTarget:
    """The loss of one class for every example."""

    def aim(scores: Tensor, inputs: Inputs) -> Tensor:
        """The loss of this class."""
        del inputs
        if scores.dim() != 2:
            raise TapeError(f"class: the model gives {list(scores.shape)}, wanted a row of scores for each example")
        return _loss_of(scores, id, "class")

    return aim


def sentence_pair(output: Tensor, inputs: Inputs) -> Tensor:
    """Of a translator the loss of the target sentence; of sentence vectors the cosine of the first two."""
    if "target" in inputs:
        return next_tokens(output, inputs)
    if output.dim() != 2 or len(output) < 2:
        raise TapeError(f"pair: the model gives {list(output.shape)}, wanted one vector for each of two sentences")
    return cosine_similarity(select_position(output, 0), select_position(output, 1))


def read_loss_target(text: str) -> LossTarget:
    """The aim that a word names: `next`, `token:ID`, `token:ID@PLACE`, `class:N` or `pair`."""
    kind, _, rest = text.partition(":")
    id, _, place = rest.partition("@")
    try:
        if text == "next":
            return next_tokens
        if text == "pair":
            return sentence_pair
        if kind == "token":
            return given_token(int(id), int(place) if place else -1)
        if kind == "class" and not place:
            return given_class(int(id))
    except ValueError:
        pass
    raise TapeError(f"{text!r} is no loss; wanted next, token:ID, token:ID@PLACE, class:N or pair")


def _loss_of(scores: Tensor, id: int, what: str) -> Tensor:
    if not 0 <= id < scores.shape[-1]:
        raise TapeError(f"{what}: there is no {what} {id}, wanted 0 to {scores.shape[-1] - 1}")
    return cross_entropy(scores, torch.full(scores.shape[:-1], id, device=scores.device))
