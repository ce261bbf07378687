"""Beam search: the likeliest texts among several that are written side by side (Lowerre, 1976).

A hypothesis that ends keeps its place, and those that go on share the places left; so a beam of one is the greedy
choice. All of a step is tensor work, each prompt's beam apart from the others: neighbours change nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.loop import MOSTLY, Generator, Prompts
from glassformer.decoding.next_token import without_ids
from glassformer.equations.sampling import length_penalty
from glassformer.equations.softmax import logsumexp
from glassformer.layers.beam_cache import BeamCache, RecurrentBeamState, expand_beams
from glassformer.layers.cache import DecoderState
from glassformer.layers.encoder_decoder import EncoderDecoder

FIRST = 1e6  # lifts what has ended above all that goes on, so that it keeps its place
STRETCH = 256  # scores whose peak is taken together


@dataclass(frozen=True)
class Hypothesis:
    """A text of the beam with the log-probability of each token, and the score it was ranked by."""

    ids: list[int]
    log_probabilities: list[float]
    score: float


@dataclass
class Beam:
    """Hypotheses [prompts, beam]: their tokens and log-probabilities [prompts, beam, limit], and where they stand."""

    ids: Tensor
    log_probabilities: Tensor
    score: Tensor
    length: Tensor
    ended: Tensor
    most: Tensor

    @classmethod
    def empty(cls, most: Sequence[int], width: int, like: Tensor) -> "Beam":
        """Beams in which the first hypothesis alone counts: the others would say the same."""
        shape, device = (len(most), width), like.device
        dtype = torch.promote_types(like.dtype, torch.float32)
        score = torch.full(shape, -torch.inf, dtype=dtype, device=device)
        score[:, 0] = 0
        return cls(
            ids=torch.zeros(*shape, max(most), dtype=torch.long, device=device),
            log_probabilities=torch.zeros(*shape, max(most), dtype=dtype, device=device),
            score=score,
            length=torch.zeros(shape, dtype=torch.long, device=device),
            ended=torch.zeros(shape, dtype=torch.bool, device=device),
            most=torch.tensor(most, device=device)[:, None],
        )

    def extend(self, scores: Tensor, step: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        """Take the best continuations of all hypotheses; gives the token of each and which one it continues."""
        beams, width = self.score.shape
        best, ids = highest(scores, width)
        options = ids.shape[-1]
        best, ids = (best - logsumexp(scores)[:, None]).view(beams, width, -1), ids.view(beams, width, -1)
        # what has ended goes on as itself alone, and at no cost
        alone = torch.where(torch.arange(options, device=ids.device) == 0, 0.0, -torch.inf).to(best.dtype)
        best = torch.where(self.ended[..., None], alone, best)
        priority = self.score[..., None] + best + FIRST * self.ended[..., None]
        index = priority.view(beams, -1).topk(width, -1, sorted=True).indices
        parent = index // options
        token, log_probability = (values.view(beams, -1).gather(1, index) for values in (ids, best))
        was = self.ended.gather(1, parent)
        self._follow(parent)
        self.score.add_(log_probability)
        going = ~was
        place = step.view(1, 1, 1).expand(beams, width, 1)
        self.ids.scatter_(2, place, torch.where(going, token, 0)[..., None])
        self.log_probabilities.scatter_(2, place, log_probability[..., None])
        self.length.add_(going)
        over = (token[..., None] == ends).any(-1) | (self.length >= self.most)
        self.ended.copy_(was | over)
        return token, parent

    def _follow(self, parent: Tensor) -> None:
        """Every place takes over what its parent was."""
        for flat in (self.score, self.length):
            flat.copy_(flat.gather(1, parent))
        for deep in (self.ids, self.log_probabilities):
            deep.copy_(deep.gather(1, parent[..., None].expand_as(deep)))

    def fill(self, other: "Beam", most: Tensor) -> None:
        """Begin again as another beam, in place, with a limit for each prompt."""
        for name, value in vars(other).items():
            getattr(self, name).copy_(value)
        self.most.copy_(most)

    def rank(self, config: GenerationConfig) -> Tensor:
        """Scores over the length penalty, by which hypotheses are ranked; one that goes on has no rank yet."""
        return (self.score / self._divisors(config)[self.length]).masked_fill(~self.ended, -torch.inf)

    def settled(self, config: GenerationConfig) -> Tensor:
        """Which prompts [prompts] have their best texts for certain: nothing that goes on can still overtake them."""
        divisors = self._divisors(config)
        # a log-probability can only fall; the most a hypothesis can rank is by today's over the largest divisor
        reach = divisors[self.most]
        bound = torch.maximum(self.score / reach, self.score / divisors[self.length])
        hope = bound.masked_fill(self.ended, -torch.inf).amax(1)
        ranked = self.rank(config).sort(1, descending=True).values
        return self.ended.all(1) | (ranked[:, config.n - 1] >= hope)

    def _divisors(self, config: GenerationConfig) -> Tensor:
        return _divisors(self.ids.shape[-1], config.length_penalty, self.score.dtype, self.score.device)

    def select(self, beams: Tensor) -> None:
        """Go on with these prompts only."""
        for name, value in vars(self).items():
            setattr(self, name, value[beams])

    def best(self, prompts: Sequence[int], config: GenerationConfig) -> list[list[Hypothesis]]:
        """The best hypotheses of these prompts, which are settled; fewer than asked for if there are no more."""
        chosen = torch.tensor(prompts, device=self.score.device)
        rank = self.rank(config)[chosen]
        places = rank.sort(dim=1, descending=True, stable=True).indices[:, : config.n]
        deep = places[..., None].expand(-1, -1, self.ids.shape[-1])
        texts = [column[chosen].gather(1, deep).tolist() for column in (self.ids, self.log_probabilities)]
        sizes = [column.gather(1, places).tolist() for column in (self.length[chosen], rank)]
        return [
            [Hypothesis(ids[:n], log_p[:n], score) for ids, log_p, n, score in each if score != -math.inf]
            for each in (zip(*columns, strict=True) for columns in zip(*texts, *sizes, strict=True))
        ]


@lru_cache(maxsize=8)
def _divisors(limit: int, alpha: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """What a score is divided by for each length up to a limit."""
    return torch.tensor([length_penalty(n, alpha) for n in range(limit + 1)], dtype=dtype, device=device)


def highest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest scores of each row [rows, vocab] and where they stand; no more than there are.

    They lie where the peaks of portions are largest, or in what the portions leave over: one pass finds those.
    """
    rows, vocab = scores.shape
    portions = vocab // STRETCH
    if portions <= count:
        return scores.topk(min(count, vocab), -1)
    whole, near = portions * STRETCH, count * STRETCH
    cut = scores[:, :whole].view(rows, portions, STRETCH)
    at = cut.amax(-1).topk(count, -1).indices
    few = cut.gather(1, at[..., None].expand(-1, -1, STRETCH)).flatten(1)
    best, place = torch.cat([few, scores[:, whole:]], 1).topk(count, -1)
    inside = at.gather(1, (place // STRETCH).clamp_max(count - 1)) * STRETCH + place % STRETCH
    return best, torch.where(place < near, inside, place - near + whole)


class BeamState:
    """Where the beams of several prompts stand: what each chose last, what was read, and the step on from there."""

    model: Generator
    config: GenerationConfig
    cache: BeamCache | RecurrentBeamState
    beam: Beam
    next: Tensor
    step: Tensor
    stop: Tensor
    unused: Tensor

    def extend(self) -> tuple[Tensor, Tensor]:
        """Read what was chosen last and choose again; gives tokens and which hypothesis each continues."""
        ids = self.next if isinstance(self.cache, BeamCache) else self.next.view(-1, 1)  # a recurrent way is a row
        scores = without_ids(self.model.decode_step(ids, self.cache).flatten(0, 1), self.unused)
        if self.config.min_new_tokens:
            scores = torch.where(self.step < self.config.min_new_tokens, without_ids(scores, self.stop), scores)
        chosen = self.beam.extend(scores, self.step, self.stop)
        self.step.add_(1)
        return chosen


class BeamSearch(BeamState):
    """Beams of several prompts on their way, step by step."""

    def __init__(
        self,
        model: Generator,
        prompts: Prompts,
        most: Sequence[int],
        config: GenerationConfig,
        ends: Sequence[int],
        first: int,
        unused: Sequence[int] = (),
    ) -> None:
        self.model = model
        self.config = config
        translates = isinstance(model, EncoderDecoder)
        past, last = model.prefill(prompts, 1 if translates else max(map(len, prompts)), config.prefill_chunk)
        start = torch.full((len(prompts), 1), first, device=last.device) if translates else last
        self.next = start.repeat(1, config.num_beams)
        self.beam = Beam.empty([max(1, n) for n in most], config.num_beams, model.embedding.weight)
        self.step = torch.zeros((), dtype=torch.long, device=last.device)
        device = last.device
        self.stop, self.unused = (torch.tensor(list(ids), dtype=torch.long, device=device) for ids in (ends, unused))
        self.cache = self.carry(past, max(1, *most))

    def carry(self, past: DecoderState, steps: int) -> BeamCache | RecurrentBeamState:
        """What was read of the prompts, for all hypotheses to go on from."""
        return expand_beams(past, self.config.num_beams, steps)

    def next_tokens(self) -> None:
        """One step of all beams."""
        self.next, parents = self.extend()
        self.cache.follow(parents)

    def compact(self, going: Sequence[int]) -> bool:
        """Go on with these prompts only, if that is worth moving them; whether it was."""
        if len(going) > MOSTLY * len(self.beam.score):
            return False
        beams = torch.tensor(going, device=self.next.device)
        self.beam.select(beams)
        self.cache.select(beams)
        self.next = self.next[beams]
        return True


def run_search(search: BeamSearch, most: Sequence[int]) -> list[list[Hypothesis]]:
    """Step until every prompt has its best texts, and give them."""
    found: dict[int, list[Hypothesis]] = {}
    left = list(range(len(most)))
    while len(found) < len(most):
        search.next_tokens()
        settled = search.beam.settled(search.config).tolist()
        new = [place for place, i in enumerate(left) if settled[place] and i not in found]
        if new:
            best = search.beam.best(new, search.config)
            found |= {left[place]: texts for place, texts in zip(new, best, strict=True)}
        going = [place for place, i in enumerate(left) if i not in found]
        if going and search.compact(going):
            left = [left[place] for place in going]
    return [found[i] if n > 0 else [Hypothesis([], [], 0.0)] * search.config.n for i, n in enumerate(most)]
