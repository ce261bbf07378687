"""Beam search: keep the most likely partial texts of each prompt and return the best finished ones (Lowerre, 1976).

A finished hypothesis keeps its slot in the beam and the unfinished ones share the rest, so a beam of one is greedy
decoding. A step is tensor operations only, and each prompt's beam is independent of the others in the batch.
"""

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from types import MethodType
from typing import cast

import torch
from torch import Tensor

from glassformer.decoding.beam_listener import BeamListener, BeamStep
from glassformer.decoding.config import COMPACT_BELOW, GenerationConfig
from glassformer.decoding.sampling import Sampler, SpecialTokens, left_filled
from glassformer.equations.sampling import length_penalty
from glassformer.equations.softmax import logsumexp
from glassformer.errors import DecodingError
from glassformer.inference.compiled_step import (
    STEPS_PER_SYNC,
    compile_step,
    fill_cache,
    require_kv_cache,
    source_slots,
    static_cache,
    stored,
)
from glassformer.inference.prepare import Generator
from glassformer.layers.beam_cache import BeamCache, expand_beams, expand_cache, prompt_slots_of, round_up
from glassformer.layers.cache import KVCache
from glassformer.layers.recurrent_state import RecurrentBeamState

ENDED_BONUS = 1e6  # ranks finished hypotheses above all unfinished ones, so that they keep their slots
CHUNK = 256  # logits whose maximum is taken together


@dataclass(frozen=True)
class Hypothesis:
    """A text of the beam with the log-probability of each token, and the score it was ranked by."""

    ids: list[int]
    log_probabilities: list[float]
    score: float


@dataclass
class Beam:
    """Hypotheses [prompts, beams]: tokens and log-probabilities [prompts, beams, limit], score, length, end, limit."""

    ids: Tensor
    log_probabilities: Tensor
    score: Tensor
    length: Tensor
    ended: Tensor
    max_tokens: Tensor

    @classmethod
    def empty(cls, max_tokens: Sequence[int], beams: int, like: Tensor) -> "Beam":
        """Beams before the first step."""
        shape, device = (len(max_tokens), beams), like.device
        dtype = torch.promote_types(like.dtype, torch.float32)
        beam = cls(
            ids=torch.zeros(*shape, max(max_tokens), dtype=torch.long, device=device),
            log_probabilities=torch.zeros(*shape, max(max_tokens), dtype=dtype, device=device),
            score=torch.zeros(shape, dtype=dtype, device=device),
            length=torch.zeros(shape, dtype=torch.long, device=device),
            ended=torch.zeros(shape, dtype=torch.bool, device=device),
            max_tokens=torch.zeros(len(max_tokens), 1, dtype=torch.long, device=device),
        )
        beam.begin(torch.tensor(max_tokens, device=device)[:, None])
        return beam

    def begin(self, max_tokens: Tensor) -> None:
        """Start afresh, in place; only the first hypothesis counts, because all of them are still the same."""
        for tensor in (self.ids, self.log_probabilities, self.length, self.ended):
            tensor.zero_()
        self.score.fill_(-torch.inf)
        self.score[:, 0] = 0
        self.max_tokens.copy_(max_tokens)

    def extend(
        self, logits: Tensor, step: Tensor, ends: Tensor, listener: BeamListener | None = None
    ) -> tuple[Tensor, Tensor]:
        """Take the best continuations of all hypotheses; gives each one's token and the hypothesis it continues."""
        prompts, beams = self.score.shape
        best, ids = highest(logits, beams)
        options = ids.shape[-1]
        best, ids = (best - logsumexp(logits)[:, None]).view(prompts, beams, -1), ids.view(prompts, beams, -1)
        # a finished hypothesis has one continuation, itself, at no cost
        itself = torch.where(torch.arange(options, device=ids.device) == 0, 0.0, -torch.inf).to(best.dtype)
        best = torch.where(self.ended[..., None], itself, best)
        scores = self.score[..., None] + best
        priority = scores + ENDED_BONUS * self.ended[..., None]
        finished = None if listener is None else self.ended.clone()
        index = priority.view(prompts, -1).topk(beams, -1, sorted=True).indices
        parent = index // options
        token, log_probability = (values.view(prompts, -1).gather(1, index) for values in (ids, best))
        was_ended = self.ended.gather(1, parent)
        for flat in (self.score, self.length):  # every slot takes over the hypothesis of its parent
            flat.copy_(flat.gather(1, parent))
        for deep in (self.ids, self.log_probabilities):
            deep.copy_(deep.gather(1, parent[..., None].expand_as(deep)))
        self.score.add_(log_probability)
        column = step.view(1, 1, 1).expand(prompts, beams, 1)
        self.ids.scatter_(2, column, torch.where(was_ended, 0, token)[..., None])
        self.log_probabilities.scatter_(2, column, log_probability[..., None])
        self.length.add_(~was_ended)
        over = (token[..., None] == ends).any(-1) | (self.length >= self.max_tokens)
        self.ended.copy_(was_ended | over)
        if listener is not None and finished is not None:
            listener(BeamStep(ids, best, scores, finished, index, self.ended.clone()))
        return token, parent

    def rank(self, config: GenerationConfig) -> Tensor:
        """Scores over the length penalty, by which finished hypotheses are ranked; unfinished ones come last."""
        return (self.score / self._divisors(config)[self.length]).masked_fill(~self.ended, -torch.inf)

    def settled(self, config: GenerationConfig) -> Tensor:
        """Which prompts [prompts] have their best texts for certain: no unfinished hypothesis can overtake them."""
        divisors = self._divisors(config)
        # a log-probability can only fall, so the best possible rank is today's score over the largest divisor
        bound = torch.maximum(self.score / divisors[self.max_tokens], self.score / divisors[self.length])
        best_possible = bound.masked_fill(self.ended, -torch.inf).amax(1)
        ranked = self.rank(config).sort(1, descending=True).values
        return self.ended.all(1) | (ranked[:, config.n - 1] >= best_possible)

    def _divisors(self, config: GenerationConfig) -> Tensor:
        return _divisors(self.ids.shape[-1], config.length_penalty, self.score.dtype, self.score.device)

    def select(self, prompts: Tensor) -> None:
        """Keep only these prompts."""
        for name, value in vars(self).items():
            setattr(self, name, value[prompts])

    def best(self, prompts: Sequence[int], config: GenerationConfig) -> list[list[Hypothesis]]:
        """The best hypotheses of these settled prompts; fewer than `config.n` if there are no more."""
        chosen = torch.tensor(prompts, device=self.score.device)
        rank = self.rank(config)[chosen]
        order = rank.sort(dim=1, descending=True, stable=True).indices[:, : config.n]
        deep = order[..., None].expand(-1, -1, self.ids.shape[-1])
        texts = [column[chosen].gather(1, deep).tolist() for column in (self.ids, self.log_probabilities)]
        sizes = [column.gather(1, order).tolist() for column in (self.length[chosen], rank)]
        return [
            [Hypothesis(ids[:n], log_p[:n], score) for ids, log_p, n, score in each if score != -math.inf]
            for each in (zip(*columns, strict=True) for columns in zip(*texts, *sizes, strict=True))
        ]


@lru_cache(maxsize=8)
def _divisors(limit: int, alpha: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The length penalty for each length up to a limit."""
    return torch.tensor([length_penalty(n, alpha) for n in range(limit + 1)], dtype=dtype, device=device)


def highest(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest logits of each row [rows, vocab] and their ids; no more than there are.

    They lie in the chunks with the largest maxima, or in what is left after the last whole chunk: one pass finds those.
    """
    rows, vocab = logits.shape
    chunks = vocab // CHUNK
    if chunks <= count:
        return logits.topk(min(count, vocab), -1)
    whole, near = chunks * CHUNK, count * CHUNK
    chunked = logits[:, :whole].view(rows, chunks, CHUNK)
    at = chunked.amax(-1).topk(count, -1).indices
    candidates = chunked.gather(1, at[..., None].expand(-1, -1, CHUNK)).flatten(1)
    best, index = torch.cat([candidates, logits[:, whole:]], 1).topk(count, -1)
    inside = at.gather(1, (index // CHUNK).clamp_max(count - 1)) * CHUNK + index % CHUNK
    return best, torch.where(index < near, inside, index - near + whole)


class BeamSearch:
    """The beams of several prompts: what each hypothesis chose last, the cache they share, and the next step.

    With `config.compile` the steps are a stored program, and the beam and the cache are its static buffers. A listener
    hears of every step, and is not for compiled ones.
    """

    cache: BeamCache | RecurrentBeamState

    def __init__(
        self,
        model: Generator,
        prompts: Sequence[Sequence[int]],
        max_tokens: Sequence[int],
        config: GenerationConfig,
        special: SpecialTokens,
        listener: BeamListener | None = None,
    ) -> None:
        if config.compile and listener is not None:
            raise DecodingError("a compiled beam search has no listener: set compile=False to listen to it")
        self.model, self.config, self.listener = model, config, listener
        device = model.embedding.weight.device
        self.choose = Sampler(config, special, device)
        inputs = [model.decoder_input(row, special.start) for row in prompts]
        past = model.prefill(prompts, max(map(len, inputs)), config.prefill_chunk)
        self.next = torch.tensor([[row[-1]] * config.num_beams for row in inputs], device=device)
        self.prompts = left_filled(inputs, config, device)
        self.step = torch.zeros((), dtype=torch.long, device=device)
        limits = [max(1, limit) for limit in max_tokens]
        self.beam = Beam.empty(limits, config.num_beams, model.embedding.weight)
        self.left = max(limits)
        self.program: Callable[[], None] | None = None
        if config.compile:
            self._use_program(require_kv_cache(model, past))
        else:
            self.cache = expand_beams(past, config.num_beams, self.left)

    def _use_program(self, past: KVCache) -> None:
        """Set the stored program for these shapes to where the prompts end, and take over its buffers."""
        config, source = self.config, source_slots(past)
        steps = round_up(config.max_new_tokens, STEPS_PER_SYNC)
        key = ("beam", len(self.next), config.num_beams, prompt_slots_of(past), steps, source, self.choose.key)
        static = stored(self.model, key, lambda: self._program(past, steps, source))
        assert isinstance(static.cache, BeamCache)
        fill_cache(static.cache, past)
        static.next.copy_(self.next)
        static.step.zero_()
        static.beam.begin(self.beam.max_tokens)
        self.cache, self.beam, self.program = static.cache, static.beam, static.program

    def _program(self, past: KVCache, steps: int, source: int) -> "BeamSearch":
        """A search of the same shapes on its own static buffers, with a compiled step."""
        static = copy(self)
        cache = expand_cache(past, self.config.num_beams, steps)
        static.cache = static_cache(cache, cache.slots, source)
        static.next, static.step = self.next.clone(), self.step.clone()
        static.beam = Beam.empty([steps] * len(self.next), self.config.num_beams, self.model.embedding.weight)
        static.program = compile_step(cast(MethodType, static._step), self.next.device)
        return static

    def _step(self) -> None:
        """Read the last token of every hypothesis and choose again."""
        ids = self.next if isinstance(self.cache, BeamCache) else self.next.view(-1, 1)  # recurrent: a row per beam
        logits = self.choose.allowed(self.model.decode_step(ids, self.cache).flatten(0, 1), self.step, self._seen())
        token, parents = self.beam.extend(logits, self.step, self.choose.ends, self.listener)
        self.step.add_(1)
        self.cache.follow(parents)
        if torch.compiler.is_compiling():
            self.next.copy_(token)
        else:
            self.next = token

    def _seen(self) -> Tensor | None:
        """The tokens of every hypothesis [hypotheses, seen] with its prompt, where n-grams are blocked."""
        if not self.config.no_repeat_ngram_size:
            return None
        prompts = self.prompts[:, None].expand(-1, self.config.num_beams, -1)
        return torch.cat([prompts, self.beam.ids[..., : int(self.step)]], -1).flatten(0, 1)

    def next_tokens(self) -> None:
        """One step of all beams, or several of a compiled program."""
        steps, run = (1, self._step) if self.program is None else (STEPS_PER_SYNC, self.program)
        for _ in range(min(steps, self.left)):
            run()
        self.left -= steps

    def compact(self, live: Sequence[int]) -> bool:
        """Drop all other prompts once enough are finished to make that pay; a compiled step has a fixed batch."""
        if self.program is not None or len(live) > COMPACT_BELOW * len(self.beam.score):
            return False
        prompts = torch.tensor(live, device=self.next.device)
        self.beam.select(prompts)
        self.cache.select(prompts)
        self.next, self.prompts = self.next[prompts], self.prompts[prompts]
        return True


def run_search(search: BeamSearch, max_tokens: Sequence[int]) -> list[list[Hypothesis]]:
    """Step until the best texts of every prompt are certain, and return them."""
    found: dict[int, list[Hypothesis]] = {}
    prompts = list(range(len(max_tokens)))  # the prompt of each row
    while len(found) < len(max_tokens):
        search.next_tokens()
        settled = search.beam.settled(search.config).tolist()
        new = [row for row, i in enumerate(prompts) if settled[row] and i not in found]
        if new:
            best = search.beam.best(new, search.config)
            found |= {prompts[row]: texts for row, texts in zip(new, best, strict=True)}
        live = [row for row, i in enumerate(prompts) if i not in found]
        if live and search.compact(live):
            prompts = [prompts[row] for row in live]
    return [found[i] if n > 0 else [Hypothesis([], [], 0.0)] * search.config.n for i, n in enumerate(max_tokens)]
