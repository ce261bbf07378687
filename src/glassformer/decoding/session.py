"""A batch of texts being written: prompts are read once, then each step reads one token a text and chooses the next."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from glassformer.decoding.next_token import log_probability, next_token, random_numbers, without_ids
from glassformer.decoding.settings import Decoding
from glassformer.errors import DecodingError
from glassformer.layers.cache import Cache, RecurrentState, left_padded
from glassformer.models.gpt import GPT
from glassformer.models.llama import Llama
from glassformer.models.modern import Modern
from glassformer.models.rnn import RNN
from glassformer.models.seq2seq import Seq2Seq
from glassformer.models.t5 import T5
from glassformer.recording import unchecked

LanguageModel = GPT | Llama | Modern | RNN
Translator = Seq2Seq | T5
Writes = LanguageModel | Translator
Prompts = Sequence[Sequence[int]]
MOSTLY = 0.75  # as long as more of a batch than this is still being written, it is left as it is


def require_writer(model: object) -> Writes:
    """The model, if it is one that writes text token by token."""
    if not isinstance(model, LanguageModel | Translator):
        raise DecodingError(f"{type(model).__name__} does not write text: it has no next token to choose")
    return model


@contextmanager
def at_rest(model: Writes) -> Iterator[None]:
    """Run a model without dropout, without gradients and without checking every equation, then leave it as it was."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), unchecked():
            yield
    finally:
        model.train(training)


def context_of(model: Writes) -> int | None:
    """How many tokens a model can read, or None if there is no end to it."""
    return None if isinstance(model, RNN) else model.config.context


def padded_sources(sources: Prompts, device: torch.device) -> tuple[Tensor, Tensor]:
    """Sources as one tensor, and which of it is real; an empty one gets one token, for something must be seen."""
    width = max(1, *map(len, sources))
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in sources], device=device)
    lengths = torch.tensor([max(1, len(row)) for row in sources], device=device)
    return ids, torch.arange(width, device=device) < lengths[:, None]


def open_cache(model: Writes, prompts: Prompts, slots: int, how: Decoding) -> tuple[Cache | RecurrentState, Tensor]:
    """Read the prompts, and give the cache that holds them and the tokens to read next.

    A language model reads all of a prompt but its last token; a translator reads it as its source.
    """
    device = model.embedding.weight.device
    if isinstance(model, Translator):
        source, keep = padded_sources(prompts, device)
        return model.cache(source, slots, None if bool(keep.all()) else keep), source[:, :0]
    ids, padding = left_padded(prompts, 0, device)
    cache = model.cache(len(prompts), slots, padding, how.chunk)
    for part in ids[:, :-1].split(how.chunk, 1):
        if part.shape[1]:
            model(part, cache=cache)
    return cache, ids[:, -1:]


def read(model: Writes, ids: Tensor, cache: Cache | RecurrentState) -> Tensor:
    """Scores [rows, new, vocab], never coarser than float32, after reading tokens [rows, new] into the cache."""
    if isinstance(model, RNN):
        assert isinstance(cache, RecurrentState)
        scores = model(ids, cache)
    else:
        assert isinstance(cache, Cache)
        scores = model.decode(ids, None, cache=cache) if isinstance(model, Translator) else model(ids, cache=cache)
    return scores if scores.dtype == torch.float64 else scores.float()


class Session:
    """Texts written together, `how.n` for each prompt; `unused` are ids of the model that are not tokens."""

    def __init__(
        self,
        model: Writes,
        prompts: Prompts,
        slots: int,
        how: Decoding,
        ends: Sequence[int],
        first: int,
        unused: Sequence[int] = (),
    ) -> None:
        self.model = model
        self.how = how
        self.step = 0
        self.cache, last = open_cache(model, prompts, slots, how)
        device = last.device
        self.stop, self.unused = (torch.tensor(list(ids), dtype=torch.long, device=device) for ids in (ends, unused))
        translates = isinstance(model, Translator)
        history = [[first] if translates else row for row in prompts for _ in range(how.n)]
        self.next = torch.full((len(history), 1), first, device=device) if translates else last
        if how.n > 1:
            several = torch.arange(len(prompts), device=device).repeat_interleave(how.n)
            self.cache.select(several)
            self.next = self.next if translates else self.next[several]
        self.numbers = None
        if how.temperature > 0:
            each = [random_numbers(row, i, how) for row in prompts for i in range(how.n)]
            self.numbers = torch.stack(each).to(device)
        # a row's own token fills what a shorter history leaves empty, for seen twice counts once
        width = max(map(len, history))
        self.seen = torch.tensor([[row[0]] * (width - len(row)) + list(row) for row in history], device=device)

    def burst(self) -> tuple[list[list[int]], list[list[float]]]:
        """The next tokens of every text and their log-probabilities, [tokens][texts]; here one token each."""
        scores = without_ids(read(self.model, self.next, self.cache)[:, -1], self.unused)
        if self.step < self.how.minimum:
            scores = without_ids(scores, self.stop)
        u = None if self.numbers is None else self.numbers[:, self.step]
        chosen = next_token(scores, self.how, u, self.seen)
        self.seen = torch.cat([self.seen, chosen[:, None]], 1)
        self.next, self.step = chosen[:, None], self.step + 1
        log_p = log_probability(scores, chosen)
        return [chosen.tolist()], [log_p.tolist()]

    def keep(self, rows: Sequence[int]) -> bool:
        """Go on with these texts only, if that is worth moving them; whether it was."""
        if len(rows) > MOSTLY * len(self.next):
            return False
        chosen = torch.tensor(rows, device=self.next.device)
        self.cache.select(chosen)
        self.next, self.seen = self.next[chosen], self.seen[chosen]
        self.numbers = None if self.numbers is None else self.numbers[chosen]
        return True
