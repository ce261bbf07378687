"""Losses to differentiate, computed by equations from the output of a model."""

import re
from collections.abc import Callable, Mapping
from functools import partial
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


def next_token_loss(logits: Tensor, inputs: Inputs) -> Tensor:
    """The mean loss of every token given those before it; of an encoder-decoder, of every target token."""
    ids = inputs.get("target", inputs.get("ids"))
    if not isinstance(ids, Tensor) or logits.dim() != 3 or logits.shape[:2] != ids.shape:
        raise TapeError(f"next: the model gives {list(logits.shape)}, wanted logits for each token that went in")
    if ids.shape[1] < 2:
        raise TapeError("next: the input has one token, wanted at least two")
    following = ids[:, 1:]
    if "ids" in inputs and isinstance(mask := inputs.get("attention_mask"), Tensor):
        following = following.masked_fill(~mask[:, 1:], IGNORE)
    targets = torch.cat([following, torch.full_like(ids[:, :1], IGNORE)], 1)
    return cross_entropy(logits, targets, ignore_index=IGNORE)


def token_loss(logits: Tensor, _inputs: Inputs, id: int, position: int = -1) -> Tensor:
    """The loss of one token as the next one after a position, by default the last."""
    if logits.dim() != 3 or not -logits.shape[1] <= position < logits.shape[1]:
        raise TapeError(f"token: the model gives {list(logits.shape)}, which has no logits at position {position}")
    return _loss_of(select_position(logits, position), id, "token")


def class_loss(logits: Tensor, _inputs: Inputs, id: int) -> Tensor:
    """The loss of one class, for every example."""
    if logits.dim() != 2:
        raise TapeError(f"class: the model gives {list(logits.shape)}, wanted a row of logits for each example")
    return _loss_of(logits, id, "class")


def pair_loss(output: Tensor, inputs: Inputs) -> Tensor:
    """The loss of the target sentence of an encoder-decoder; the cosine of the first two sentence vectors."""
    if "target" in inputs:
        return next_token_loss(output, inputs)
    if output.dim() != 2 or len(output) < 2:
        raise TapeError(f"pair: the model gives {list(output.shape)}, wanted one vector for each of two sentences")
    return cosine_similarity(select_position(output, 0), select_position(output, 1))


def read_loss_target(text: str) -> LossTarget:
    """The loss that a text names: `next`, `token:ID`, `token:ID@POSITION`, `class:N` or `pair`."""
    if text in ("next", "pair"):
        return next_token_loss if text == "next" else pair_loss
    if found := re.fullmatch(r"token:(-?\d+)(?:@(-?\d+))?", text):
        return partial(token_loss, id=int(found[1]), position=int(found[2] or -1))
    if found := re.fullmatch(r"class:(-?\d+)", text):
        return partial(class_loss, id=int(found[1]))
    raise TapeError(f"{text!r} is not a loss; wanted next, token:ID, token:ID@POSITION, class:N or pair")


def _loss_of(logits: Tensor, id: int, what: str) -> Tensor:
    if not 0 <= id < logits.shape[-1]:
        raise TapeError(f"{what}: there is no {what} {id}, wanted 0 to {logits.shape[-1] - 1}")
    return cross_entropy(logits, torch.full(logits.shape[:-1], id, device=logits.device))
