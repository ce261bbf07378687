"""From scores to the next token, by the equations of sampling, each row by random numbers of its own."""

import zlib
from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.decoding.config import GenerationConfig
from glassformer.equations.sampling import (
    greedy,
    min_p,
    repetition_penalty,
    sample_from_uniform,
    suppress_tokens,
    temperature,
    top_k,
    top_p,
)
from glassformer.equations.softmax import logsumexp, softmax


def next_token(scores: Tensor, config: GenerationConfig, u: Tensor | None = None, seen: Tensor | None = None) -> Tensor:
    """The next token of each row of scores [rows, vocab]; `u` are its random numbers, `seen` the tokens before."""
    if config.temperature == 0:
        return greedy(penalised(scores, config, seen))
    assert u is not None
    return sample_from_uniform(softmax(filtered(scores, config, seen)), u)


def penalised(scores: Tensor, config: GenerationConfig, seen: Tensor | None) -> Tensor:
    """Scores with what was said before made fainter."""
    if config.repetition_penalty == 1 or seen is None:
        return scores
    return repetition_penalty(scores, seen, config.repetition_penalty)


def filtered(scores: Tensor, config: GenerationConfig, seen: Tensor | None = None) -> Tensor:
    """The scores that sampling draws by: penalised, tempered, then cut off from below."""
    z = temperature(penalised(scores, config, seen), config.temperature)
    z = z if config.top_k is None else top_k(z, config.top_k)
    z = z if config.top_p is None else top_p(z, config.top_p)
    return z if config.min_p is None else min_p(z, config.min_p)


def without_ids(scores: Tensor, ids: Tensor) -> Tensor:
    """Scores with some ids taken out: those that are not tokens, or that would end a text that is too short."""
    return suppress_tokens(scores, ids) if len(ids) else scores


def log_probability(scores: Tensor, ids: Tensor) -> Tensor:
    """The model's own log-probability of each row's token, whatever way it was chosen."""
    return scores.gather(-1, ids[..., None]).squeeze(-1) - logsumexp(scores)


def random_numbers(prompt: Sequence[int], sample: int, config: GenerationConfig) -> Tensor:
    """The numbers [limit] that decide one text: by the seed, its prompt and its number among the samples."""
    place = zlib.crc32(repr((config.seed, list(prompt), sample)).encode())
    generator = torch.Generator().manual_seed(place)
    return torch.rand(config.max_new_tokens, dtype=torch.float64, generator=generator, device=generator.device)
