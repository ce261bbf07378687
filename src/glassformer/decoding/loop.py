"""A batch of texts being written: prompts are read once, then each step reads one token a text and chooses the next."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.next_token import log_probability, next_token, random_numbers, without_ids
from glassformer.equation import no_checks
from glassformer.errors import DecodingError
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder

Generator = CausalLM | EncoderDecoder
Prompts = Sequence[Sequence[int]]
MOSTLY = 0.75  # as long as more of a batch than this is still being written, it is left as it is


def require_generator(model: object) -> Generator:
    """The model, if it is one that writes text token by token."""
    if not isinstance(model, Generator):
        raise DecodingError(f"{type(model).__name__} does not write text: it has no next token to choose")
    return model


@contextmanager
def inference_mode(model: Generator) -> Iterator[None]:
    """Run a model without dropout, without gradients and without checking every equation, then leave it as it was."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), no_checks():
            yield
    finally:
        model.train(training)


class DecodeLoop:
    """Texts written together, `how.n` for each prompt; `unused` are ids of the model that are not tokens."""

    def __init__(
        self,
        model: Generator,
        prompts: Prompts,
        slots: int,
        config: GenerationConfig,
        ends: Sequence[int],
        first: int,
        unused: Sequence[int] = (),
    ) -> None:
        self.model = model
        self.config = config
        self.step = 0
        self.cache, last = model.prefill(prompts, slots, config.prefill_chunk)
        device = last.device
        self.stop, self.unused = (torch.tensor(list(ids), dtype=torch.long, device=device) for ids in (ends, unused))
        translates = isinstance(model, EncoderDecoder)
        history = [[first] if translates else row for row in prompts for _ in range(config.n)]
        self.next = torch.full((len(history), 1), first, device=device) if translates else last
        if config.n > 1:
            several = torch.arange(len(prompts), device=device).repeat_interleave(config.n)
            self.cache.select(several)
            self.next = self.next if translates else self.next[several]
        self.numbers = None
        if config.temperature > 0:
            each = [random_numbers(row, i, config) for row in prompts for i in range(config.n)]
            self.numbers = torch.stack(each).to(device)
        # a row's own token fills what a shorter history leaves empty, for seen twice counts once
        width = max(map(len, history))
        self.seen = torch.tensor([[row[0]] * (width - len(row)) + list(row) for row in history], device=device)

    def next_tokens(self) -> tuple[list[list[int]], list[list[float]]]:
        """The next tokens of every text and their log-probabilities, [tokens][texts]; here one token each."""
        scores = without_ids(self.model.decode_step(self.next, self.cache)[:, -1], self.unused)
        if self.step < self.config.min_new_tokens:
            scores = without_ids(scores, self.stop)
        u = None if self.numbers is None else self.numbers[:, self.step]
        chosen = next_token(scores, self.config, u, self.seen)
        self.seen = torch.cat([self.seen, chosen[:, None]], 1)
        self.next, self.step = chosen[:, None], self.step + 1
        log_p = log_probability(scores, chosen)
        return [chosen.tolist()], [log_p.tolist()]

    def compact(self, rows: Sequence[int]) -> bool:
        """Go on with these texts only, if that is worth moving them; whether it was."""
        if len(rows) > MOSTLY * len(self.next):
            return False
        chosen = torch.tensor(rows, device=self.next.device)
        self.cache.select(chosen)
        self.next, self.seen = self.next[chosen], self.seen[chosen]
        self.numbers = None if self.numbers is None else self.numbers[chosen]
        return True
