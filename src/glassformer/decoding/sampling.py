"""Sampling: from logits to the next token of each text, with random numbers that belong to that text alone."""

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.decoding.config import GenerationConfig
from glassformer.equations.sampling import (
    greedy,
    min_p,
    no_repeat_ngram,
    repetition_penalty,
    sample_from_uniform,
    suppress_tokens,
    temperature,
    top_k,
    top_p,
)
from glassformer.equations.softmax import logsumexp, softmax


class SpecialTokens(NamedTuple):
    """The token a decoder starts from, the tokens that end a text, and ids of the model that are not tokens."""

    start: int = 0
    ends: tuple[int, ...] = ()
    unused: tuple[int, ...] = ()


class Sampler:
    """Chooses the next token of each text by the settings of one call.

    `key` is everything a choice depends on beside its arguments; with `takes_argmax` it is the largest logit.
    """

    def __init__(self, config: GenerationConfig, special: SpecialTokens, device: torch.device) -> None:
        self.config = config
        self.ends = torch.tensor(special.ends, dtype=torch.long, device=device)
        self.unused = torch.tensor(special.unused, dtype=torch.long, device=device)
        penalty, shortest, ngram = config.repetition_penalty, config.min_new_tokens, config.no_repeat_ngram_size
        cutoffs = config.temperature, config.top_k, config.top_p, config.min_p
        self.key: tuple[object, ...] = *cutoffs, penalty, shortest, ngram, special.ends, special.unused
        self.takes_argmax = config.temperature == 0 and penalty == 1 and shortest == 0 and ngram == 0

    def allowed(self, logits: Tensor, step: int | Tensor, seen: Tensor | None = None) -> Tensor:
        """Logits without unused ids, end tokens until `min_new_tokens` steps are done, and n-grams `seen` before."""
        logits = without_ids(logits, self.unused)
        short = self.config.min_new_tokens > 0 and step < self.config.min_new_tokens
        if isinstance(short, Tensor):
            logits = torch.where(short, without_ids(logits, self.ends), logits)
        elif short:
            logits = without_ids(logits, self.ends)
        size = self.config.no_repeat_ngram_size
        return logits if seen is None or not size else no_repeat_ngram(logits, seen, size)

    def __call__(self, logits: Tensor, step: int | Tensor, u: Tensor | None, seen: Tensor) -> tuple[Tensor, Tensor]:
        """The next token of each row of logits [texts, vocab] and its log-probability."""
        logits = self.allowed(logits, step, seen)
        chosen = next_token(logits, self.config, u, seen)
        return chosen, log_probability(logits, chosen)


def left_filled(inputs: Sequence[Sequence[int]], config: GenerationConfig, device: torch.device) -> Tensor:
    """Decoder inputs as one tensor, shorter ones filled on the left.

    A token seen twice counts once, so the first of a row can be the filling, unless n-grams are blocked: then it is -1.
    """
    width, blocks = max(map(len, inputs)), config.no_repeat_ngram_size > 0
    rows = [[-1 if blocks else row[0]] * (width - len(row)) + list(row) for row in inputs]
    return torch.tensor(rows, device=device)


def next_token(logits: Tensor, config: GenerationConfig, u: Tensor | None = None, seen: Tensor | None = None) -> Tensor:
    """The next token of each row of logits [texts, vocab]; `u` are random numbers, `seen` the tokens before."""
    if config.temperature == 0:
        return greedy(penalized(logits, config, seen))
    assert u is not None
    return sample_from_uniform(softmax(filtered(logits, config, seen)), u)


def penalized(logits: Tensor, config: GenerationConfig, seen: Tensor | None) -> Tensor:
    """Logits with the repetition penalty applied to the tokens seen before; a negative id is none."""
    if config.repetition_penalty == 1 or seen is None:
        return logits
    if config.no_repeat_ngram_size:
        seen = torch.where(seen < 0, seen[..., -1:], seen)
    return repetition_penalty(logits, seen, config.repetition_penalty)


def filtered(logits: Tensor, config: GenerationConfig, seen: Tensor | None = None) -> Tensor:
    """The logits to sample from: repetition penalty, temperature, then top-k, top-p and min-p."""
    z = temperature(penalized(logits, config, seen), config.temperature)
    z = z if config.top_k is None else top_k(z, config.top_k)
    z = z if config.top_p is None else top_p(z, config.top_p)
    return z if config.min_p is None else min_p(z, config.min_p)


def without_ids(logits: Tensor, ids: Tensor) -> Tensor:
    """Logits with some token ids suppressed."""
    return suppress_tokens(logits, ids) if len(ids) else logits


def log_probability(logits: Tensor, ids: Tensor) -> Tensor:
    """The log-probability of each row's token under the model, before temperature and cutoffs."""
    return logits.gather(-1, ids[..., None]).squeeze(-1) - logsumexp(logits)


def random_numbers(prompt: Sequence[int], sample: int, config: GenerationConfig) -> Tensor:
    """Uniform random numbers [max_new_tokens] for one text, from the seed, its prompt and its sample number."""
    seed = zlib.crc32(repr((config.seed, list(prompt), sample)).encode())
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(config.max_new_tokens, dtype=torch.float64, generator=generator, device=generator.device)
