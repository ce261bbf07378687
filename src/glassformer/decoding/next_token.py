"""From scores to the next token, by the equations of sampling, each row by random numbers of its own."""

import zlib
from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.decoding.settings import Decoding
from glassformer.equations.probability import logsumexp, softmax
from glassformer.equations.sampling import (
    forbid,
    greedy,
    min_p,
    pick,
    repetition_penalty,
    temperature,
    top_k,
    top_p,
)


def next_token(scores: Tensor, how: Decoding, u: Tensor | None = None, seen: Tensor | None = None) -> Tensor:
    """The next token of each row of scores [rows, vocab]; `u` are its random numbers, `seen` the tokens before."""
    if how.temperature == 0:
        return greedy(penalised(scores, how, seen))
    assert u is not None
    return pick(softmax(filtered(scores, how, seen)), u)


def penalised(scores: Tensor, how: Decoding, seen: Tensor | None) -> Tensor:
    """Scores with what was said before made fainter."""
    if how.repetition == 1 or seen is None:
        return scores
    return repetition_penalty(scores, seen, how.repetition)


def filtered(scores: Tensor, how: Decoding, seen: Tensor | None = None) -> Tensor:
    """The scores that sampling draws by: penalised, tempered, then cut off from below."""
    z = temperature(penalised(scores, how, seen), how.temperature)
    z = z if how.top_k is None else top_k(z, how.top_k)
    z = z if how.top_p is None else top_p(z, how.top_p)
    return z if how.min_p is None else min_p(z, how.min_p)


def without_ids(scores: Tensor, ids: Tensor) -> Tensor:
    """Scores with some ids taken out: those that are not tokens, or that would end a text that is too short."""
    return forbid(scores, ids) if len(ids) else scores


def log_probability(scores: Tensor, ids: Tensor) -> Tensor:
    """The model's own log-probability of each row's token, whatever way it was chosen."""
    return scores.gather(-1, ids[..., None]).squeeze(-1) - logsumexp(scores)


def random_numbers(prompt: Sequence[int], sample: int, how: Decoding) -> Tensor:
    """The numbers [limit] that decide one text: by the seed, its prompt and its number among the samples."""
    place = zlib.crc32(repr((how.seed, list(prompt), sample)).encode())
    generator = torch.Generator().manual_seed(place)
    return torch.rand(how.limit, dtype=torch.float64, generator=generator, device=generator.device)
