"""Beam search: the likeliest texts among several that are written side by side (Lowerre, 1976).

A hypothesis that ends keeps its place, and those that go on share the places left; so a beam of one is the greedy
choice. All of a step is tensor work of fixed shape, each prompt's beam on its own rows: neighbours change nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.decoding.next_token import without_ends
from glassformer.decoding.session import Prompts, Translator, Writes, open_cache, read
from glassformer.decoding.settings import Decoding
from glassformer.equations.probability import log_softmax
from glassformer.equations.sampling import length_penalty

FIRST = 1e6  # lifts what has ended above all that goes on, so that it keeps its place


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
        """Take the best continuations of all hypotheses; gives the token of each and the row it continues."""
        beams, width = self.score.shape
        log_p = log_softmax(scores).view(beams, width, -1)
        best, ids = log_p.topk(min(width, log_p.shape[-1]), -1)
        options = ids.shape[-1]
        alone = torch.arange(options, device=ids.device) == 0
        priority = torch.where(
            self.ended[..., None],
            torch.where(alone, self.score[..., None] + FIRST, -torch.inf),
            self.score[..., None] + best,
        ).view(beams, -1)
        index = priority.topk(width, -1, sorted=True).indices
        parent = index // options
        token, log_probability = (values.view(beams, -1).gather(1, index) for values in (ids, best))
        was = self.ended.gather(1, parent)
        self._follow(parent)
        self.score.copy_(torch.where(was, self.score, self.score + log_probability))
        going = ~was
        place = step.view(1, 1, 1).expand(beams, width, 1)
        self.ids.scatter_(2, place, torch.where(going, token, 0)[..., None])
        self.log_probabilities.scatter_(2, place, torch.where(going, log_probability, 0.0)[..., None])
        self.length.add_(going)
        over = (token[..., None] == ends).any(-1) | (self.length >= self.most)
        self.ended.copy_(was | over)
        rows = (parent + torch.arange(beams, device=parent.device)[:, None] * width).flatten()
        return token.flatten(), rows

    def _follow(self, parent: Tensor) -> None:
        """Every place takes over what its parent was."""
        for flat in (self.score, self.length):
            flat.copy_(flat.gather(1, parent))
        for deep in (self.ids, self.log_probabilities):
            deep.copy_(deep.gather(1, parent[..., None].expand_as(deep)))

    def rank(self, how: Decoding) -> Tensor:
        """Scores over the length penalty, by which hypotheses are ranked."""
        return self.score / self._divisors(how)[self.length]

    def settled(self, how: Decoding) -> Tensor:
        """Which prompts [prompts] have their best texts for certain: nothing that goes on can still overtake them."""
        divisors = self._divisors(how)
        # a log-probability can only fall; the most a hypothesis can rank is by today's over the largest divisor
        reach = divisors[self.most]
        bound = torch.maximum(self.score / reach, self.score / divisors[self.length])
        hope = bound.masked_fill(self.ended, -torch.inf).amax(1)
        ranked = self.rank(how).masked_fill(~self.ended, -torch.inf).sort(1, descending=True).values
        return self.ended.all(1) | (ranked[:, how.n - 1] >= hope)

    def _divisors(self, how: Decoding) -> Tensor:
        lengths = range(self.ids.shape[-1] + 1)
        return self.score.new_tensor([length_penalty(n, how.length_penalty) for n in lengths])

    def select(self, beams: Tensor) -> None:
        """Go on with these prompts only."""
        for name, value in vars(self).items():
            setattr(self, name, value[beams])

    def best(self, prompt: int, how: Decoding) -> list[Hypothesis]:
        """The best hypotheses of a prompt, first those that ended; fewer than asked for if there are no more."""
        rank = self.rank(how)[prompt]
        real = [k for k in range(len(rank)) if self.score[prompt, k] > -torch.inf]
        order = sorted(real, key=lambda k: (not bool(self.ended[prompt, k]), -float(rank[k])))
        found = []
        for k in order[: how.n]:
            length = int(self.length[prompt, k])
            ids, log_p = self.ids[prompt, k, :length], self.log_probabilities[prompt, k, :length]
            found.append(Hypothesis(ids.tolist(), log_p.tolist(), float(rank[k])))
        return found


def beam_search(
    model: Writes, prompts: Prompts, most: Sequence[int], how: Decoding, ends: Sequence[int], first: int
) -> list[list[Hypothesis]]:
    """The best `how.n` texts after each prompt, of at most so many tokens."""
    translates = isinstance(model, Translator)
    width = 1 if translates else max(map(len, prompts))
    cache, last = open_cache(model, prompts, width + max(1, *most), how)
    device = last.device
    if translates:
        ids = torch.full((len(prompts) * how.beam, 1), first, device=device)
    else:
        several = torch.arange(len(prompts), device=device).repeat_interleave(how.beam)
        cache.select(several, several)
        ids = last[several]
    beam = Beam.empty([max(1, n) for n in most], how.beam, model.embedding.weight)
    found: dict[int, list[Hypothesis]] = {}
    left = list(range(len(prompts)))
    stop = torch.tensor(list(ends), dtype=torch.long, device=device)
    for step in range(max(1, *most)):
        scores = read(model, ids, cache)[:, -1]
        scores = without_ends(scores, ends) if step < how.minimum else scores
        token, rows = beam.extend(scores, torch.tensor(step, device=device), stop)
        settled = beam.settled(how).tolist()
        for place, i in enumerate(left):
            if settled[place]:
                found[i] = beam.best(place, how)
        going = [place for place, done in enumerate(settled) if not done]
        if not going:
            break
        ids = token[:, None]
        if len(going) < len(left):
            beams = torch.tensor(going, device=device)
            kept = (beams[:, None] * how.beam + torch.arange(how.beam, device=device)).flatten()
            beam.select(beams)
            cache.select(rows[kept], beams)
            ids, left = ids[kept], [left[place] for place in going]
        else:
            cache.select(rows)
    for place, i in enumerate(left):
        found.setdefault(i, beam.best(place, how))
    return [found[i] if most[i] > 0 else [Hypothesis([], [], 0.0)] for i in range(len(prompts))]
