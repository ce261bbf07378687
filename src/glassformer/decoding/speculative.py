"""Speculative decoding: guess several tokens cheaply, check them all in one run, keep those that hold.

Guesses come from a smaller model, or from earlier places in the text where the last tokens stood already. The
greedy choice stays what it was, token for token; draws have exactly the model's own distribution.
"""

import zlib
from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from glassformer.decoding.generate import begin_draft, encode_prompts
from glassformer.decoding.next_token import filtered, log_probability, next_token, without_ids
from glassformer.decoding.session import Translator, Writes, at_rest, context_of, read, require_writer
from glassformer.decoding.settings import Decoding
from glassformer.decoding.written import Draft, Written
from glassformer.equations.embedding import one_hot
from glassformer.equations.probability import softmax
from glassformer.equations.sampling import acceptance, pick, residual_distribution
from glassformer.errors import DecodingError
from glassformer.layers.model import Model
from glassformer.models.rnn import RNN
from glassformer.text.tokenizer import Tokenizer

LONGEST_MATCH = 3  # tokens at the end of a text that are looked for earlier in it, or fewer if those are not there


class Follower:
    """A model that reads along: it is given the whole text every time and reads only what is new."""

    def __init__(self, model: Writes, slots: int, room: int, unused: Sequence[int] = ()) -> None:
        self.model = model
        self.unused = torch.tensor(list(unused), dtype=torch.long, device=model.embedding.weight.device)
        self.room = room
        self.cache = model.cache(1, slots, room=room)  # pyright: ignore[reportArgumentType, reportCallIssue]

    def scores(self, text: Sequence[int], last: int) -> Tensor:
        """Scores [last, vocab] after the last tokens, none of which was read before."""
        ids = torch.tensor([text[self.cache.count :]], device=self.model.embedding.weight.device)
        before = ids.shape[1] - last
        self.cache.every = False
        for part in ids[:, :before].split(self.room, 1) if before else ():
            read(self.model, part, self.cache)
        self.cache.every = True
        parts = ids[:, before:].split(self.room, 1)
        return without_ids(torch.cat([read(self.model, part, self.cache)[0] for part in parts]), self.unused)

    def back_to(self, length: int) -> None:
        """Forget what was read beyond this length."""
        self.cache.advance(min(0, length - self.cache.count))


class Guess:
    """Guesses by looking up where the last tokens stood before: each guess is sure of itself."""

    def __init__(self, how: Decoding, count: int) -> None:
        self.how = how
        self.count = count

    def guess(self, text: Sequence[int], most: int, u: Tensor) -> tuple[list[int], Tensor | None]:
        """Up to `most` tokens that may come next, and the distributions they were drawn from, if any."""
        for size in range(min(LONGEST_MATCH, len(text) - 1), 0, -1):
            tail = list(text[-size:])
            for start in range(len(text) - size - 1, -1, -1):
                if list(text[start : start + size]) == tail:
                    return list(text[start + size : start + size + min(most, self.count)]), None
        return [], None


class ModelGuess(Guess):
    """Guesses by a smaller model."""

    def __init__(self, how: Decoding, count: int, draft: Follower) -> None:
        super().__init__(how, count)
        self.draft = draft

    def guess(self, text: Sequence[int], most: int, u: Tensor) -> tuple[list[int], Tensor | None]:
        """The small model's own choices, and in sampling what it drew them from."""
        context = context_of(self.draft.model)
        room = most if context is None else min(most, context - len(text))
        self.draft.back_to(len(text) - 1)
        guessed: list[int] = []
        shares: list[Tensor] = []
        for i in range(max(0, min(room, self.count))):
            both = [*text, *guessed]
            scores = self.draft.scores(both, 1)
            seen = torch.tensor([both], device=scores.device)
            guessed.append(int(next_token(scores, self.how, u[i : i + 1], seen)))
            if self.how.temperature > 0:
                shares.append(softmax(filtered(scores, self.how, seen)))
        return guessed, torch.cat(shares) if shares else None


def speculate(
    model: Model,
    tokenizer: Tokenizer,
    prompts: str | Sequence[str],
    how: Decoding,
    draft: Model | None = None,
    guesses: int = 4,
) -> list[Written]:
    """Write on from prompts like `generate`, with guesses from a draft model or, without one, from the text itself."""
    writer = _require_guesser(model, how, draft, guesses)
    texts = [prompts] if isinstance(prompts, str) else list(prompts)
    found: list[Written] = []
    unused = tokenizer.unused_ids(writer.config.vocab)
    with at_rest(writer), nullcontext() if draft is None else at_rest(require_writer(draft)):
        for ids in encode_prompts(writer, tokenizer, texts):
            for sample in range(how.n):
                text = begin_draft(writer, tokenizer, ids, how)
                slots = len(ids) + max(1, text.most) + guesses + 1
                room = max(how.chunk, guesses + 1)
                helper = Guess(how, guesses)
                if draft is not None:
                    helper = ModelGuess(how, guesses, Follower(require_writer(draft), slots, room, unused))
                place = zlib.crc32(repr((how.seed, ids, sample, "guess")).encode())
                main, generator = Follower(writer, slots, room, unused), torch.Generator().manual_seed(place)
                _guess_and_check(text, main, helper, generator)
                found.append(text.done())
    return found


def _require_guesser(model: Model, how: Decoding, draft: Model | None, guesses: int) -> Writes:
    writer = require_writer(model)
    if how.beam > 1:
        raise DecodingError(f"beam is {how.beam}, wanted 1 to guess ahead: a beam follows several texts at once")
    if guesses < 1:
        raise DecodingError(f"guesses is {guesses}, wanted at least 1")
    for one in (writer, *([] if draft is None else [require_writer(draft)])):
        if isinstance(one, RNN | Translator):
            raise DecodingError(f"{type(one).__name__} cannot guess ahead: only decoders with a cache can step back")
        if one.config.vocab != writer.config.vocab:
            wanted = f"{writer.config.vocab} as the model has"
            raise DecodingError(f"the draft has a vocabulary of {one.config.vocab}, wanted {wanted}")
    return writer


def _guess_and_check(text: Draft, main: Follower, helper: Guess, generator: torch.Generator) -> None:
    how, device = helper.how, main.model.embedding.weight.device
    ends = torch.tensor(sorted(text.ends), dtype=torch.long, device=device)
    while text.finish is None:
        known = [*text.prompt, *text.ids]
        most = text.most - len(text.ids) - 1
        u = torch.rand(2 * helper.count + 1, dtype=torch.float64, generator=generator).to(device)
        guessed, shares = helper.guess(known, most, u) if most > 0 else ([], None)
        main.back_to(len(known) - 1)
        scores = main.scores([*known, *guessed], len(guessed) + 1)
        for i in range(len(guessed) + 1):
            row = scores[i : i + 1]
            row = without_ids(row, ends) if len(text.ids) < how.minimum else row
            guess = guessed[i] if i < len(guessed) else None
            share = None if shares is None or guess is None else shares[i : i + 1]
            token, held = checked_guess(row, guess, share, how, u[helper.count + i :], [*known, *guessed[:i]])
            text.add(token, float(log_probability(row, torch.tensor([token], device=row.device))))
            if text.finish is not None or not held:
                break


def checked_guess(
    scores: Tensor, guess: int | None, share: Tensor | None, how: Decoding, u: Tensor, before: list[int]
) -> tuple[int, bool]:
    """The token that stands after checking a guess, and whether the guess held."""
    seen = torch.tensor([before], device=scores.device)
    if how.temperature == 0:
        token = int(next_token(scores, how, None, seen))
        return token, token == guess
    p = softmax(filtered(scores, how, seen))
    if guess is None:
        return int(pick(p, u[:1])), False
    q = one_hot(torch.tensor([guess], device=p.device), p.shape[-1], p.dtype) if share is None else share
    kept = acceptance(p[:, guess], q[:, guess])
    if u[0] < kept:
        return guess, True
    # of the numbers above the threshold each is as likely as any other, so one of them decides the second draw too
    again = ((u[:1] - kept) / (1 - kept)).clamp(0, 1 - 1e-12)
    return int(pick(residual_distribution(p, q), again)), False
