"""Speculative decoding: guess several tokens cheaply, check them all in one run, keep those that hold.

Guesses come from a smaller model, or from earlier places in the text where the last tokens stood already. The
greedy choice stays what it was, token for token; draws have exactly the model's own distribution.
"""

import zlib
from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from glassformer.decoding.completion import Completion, PartialText
from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.generate import begin_draft, encode_prompts
from glassformer.decoding.loop import Generator, inference_mode, require_generator
from glassformer.decoding.next_token import filtered, log_probability, next_token, without_ids
from glassformer.equations.embedding import one_hot
from glassformer.equations.sampling import acceptance, residual_distribution, sample_from_uniform
from glassformer.equations.softmax import softmax
from glassformer.errors import DecodingError
from glassformer.layers.model import Model
from glassformer.text.tokenizer import Tokenizer

LONGEST_MATCH = 3  # tokens at the end of a text that are looked for earlier in it, or fewer if those are not there


class CachedReader:
    """A model that reads along: it is given the whole text every time and reads only what is new."""

    def __init__(self, model: Generator, slots: int, headroom: int, unused: Sequence[int] = ()) -> None:
        self.model = model
        self.unused = torch.tensor(list(unused), dtype=torch.long, device=model.embedding.weight.device)
        self.headroom = headroom
        self.cache = model.new_cache(1, slots, headroom=headroom)  # pyright: ignore[reportArgumentType, reportCallIssue]

    def logits(self, text: Sequence[int], last: int) -> Tensor:
        """Scores [last, vocab] after the last tokens, none of which was read before."""
        ids = torch.tensor([text[self.cache.count :]], device=self.model.embedding.weight.device)
        before = ids.shape[1] - last
        self.cache.all_logits = False
        for part in ids[:, :before].split(self.headroom, 1) if before else ():
            self.model.decode_step(part, self.cache)
        self.cache.all_logits = True
        parts = ids[:, before:].split(self.headroom, 1)
        return without_ids(torch.cat([self.model.decode_step(part, self.cache)[0] for part in parts]), self.unused)

    def back_to(self, length: int) -> None:
        """Forget what was read beyond this length."""
        self.cache.advance(min(0, length - self.cache.count))


class PromptLookup:
    """Guesses by looking up where the last tokens stood before: each guess is sure of itself."""

    def __init__(self, config: GenerationConfig, count: int) -> None:
        self.config = config
        self.count = count

    def propose(self, text: Sequence[int], most: int, u: Tensor) -> tuple[list[int], Tensor | None]:
        """Up to `most` tokens that may come next, and the distributions they were drawn from, if any."""
        for size in range(min(LONGEST_MATCH, len(text) - 1), 0, -1):
            tail = list(text[-size:])
            for start in range(len(text) - size - 1, -1, -1):
                if list(text[start : start + size]) == tail:
                    return list(text[start + size : start + size + min(most, self.count)]), None
        return [], None


class DraftModel(PromptLookup):
    """Guesses by a smaller model."""

    def __init__(self, config: GenerationConfig, count: int, draft: CachedReader) -> None:
        super().__init__(config, count)
        self.draft = draft

    def propose(self, text: Sequence[int], most: int, u: Tensor) -> tuple[list[int], Tensor | None]:
        """The small model's own choices, and in sampling what it drew them from."""
        context = self.draft.model.max_length
        room = most if context is None else min(most, context - len(text))
        self.draft.back_to(len(text) - 1)
        guessed: list[int] = []
        shares: list[Tensor] = []
        for i in range(max(0, min(room, self.count))):
            both = [*text, *guessed]
            scores = self.draft.logits(both, 1)
            seen = torch.tensor([both], device=scores.device)
            guessed.append(int(next_token(scores, self.config, u[i : i + 1], seen)))
            if self.config.temperature > 0:
                shares.append(softmax(filtered(scores, self.config, seen)))
        return guessed, torch.cat(shares) if shares else None


def speculate(
    model: Model,
    tokenizer: Tokenizer,
    prompts: str | Sequence[str],
    config: GenerationConfig,
    draft: Model | None = None,
    guesses: int = 4,
) -> list[Completion]:
    """Write on from prompts like `generate`, with guesses from a draft model or, without one, from the text itself."""
    writer = _require_guesser(model, config, draft, guesses)
    texts = [prompts] if isinstance(prompts, str) else list(prompts)
    found: list[Completion] = []
    unused = tokenizer.unused_ids(writer.config.vocab)
    with inference_mode(writer), nullcontext() if draft is None else inference_mode(require_generator(draft)):
        for ids in encode_prompts(writer, tokenizer, texts):
            for sample in range(config.n):
                text = begin_draft(writer, tokenizer, ids, config)
                slots = len(ids) + max(1, text.max_tokens) + guesses + 1
                room = max(config.prefill_chunk, guesses + 1)
                helper = PromptLookup(config, guesses)
                if draft is not None:
                    helper = DraftModel(config, guesses, CachedReader(require_generator(draft), slots, room, unused))
                place = zlib.crc32(repr((config.seed, ids, sample, "guess")).encode())
                main, generator = CachedReader(writer, slots, room, unused), torch.Generator().manual_seed(place)
                _guess_and_check(text, main, helper, generator)
                found.append(text.done())
    return found


def _require_guesser(model: Model, config: GenerationConfig, draft: Model | None, guesses: int) -> Generator:
    writer = require_generator(model)
    if config.num_beams > 1:
        raise DecodingError(
            f"num_beams is {config.num_beams}, wanted 1 to guess ahead: a beam follows several texts at once"
        )
    if guesses < 1:
        raise DecodingError(f"guesses is {guesses}, wanted at least 1")
    for one in (writer, *([] if draft is None else [require_generator(draft)])):
        if not one.can_rewind:
            raise DecodingError(f"{type(one).__name__} cannot guess ahead: only decoders with a cache can step back")
        if one.config.vocab != writer.config.vocab:
            wanted = f"{writer.config.vocab} as the model has"
            raise DecodingError(f"the draft has a vocabulary of {one.config.vocab}, wanted {wanted}")
    return writer


def _guess_and_check(text: PartialText, main: CachedReader, helper: PromptLookup, generator: torch.Generator) -> None:
    config, device = helper.config, main.model.embedding.weight.device
    ends = torch.tensor(sorted(text.ends), dtype=torch.long, device=device)
    while text.finish_reason is None:
        known = [*text.prompt, *text.ids]
        most = text.max_tokens - len(text.ids) - 1
        u = torch.rand(2 * helper.count + 1, dtype=torch.float64, generator=generator).to(device)
        guessed, shares = helper.propose(known, most, u) if most > 0 else ([], None)
        main.back_to(len(known) - 1)
        scores = main.logits([*known, *guessed], len(guessed) + 1)
        for i in range(len(guessed) + 1):
            row = scores[i : i + 1]
            row = without_ids(row, ends) if len(text.ids) < config.min_new_tokens else row
            guess = guessed[i] if i < len(guessed) else None
            share = None if shares is None or guess is None else shares[i : i + 1]
            token, held = checked_guess(row, guess, share, config, u[helper.count + i :], [*known, *guessed[:i]])
            text.add(token, float(log_probability(row, torch.tensor([token], device=row.device))))
            if text.finish_reason is not None or not held:
                break


def checked_guess(
    scores: Tensor, guess: int | None, share: Tensor | None, config: GenerationConfig, u: Tensor, before: list[int]
) -> tuple[int, bool]:
    """The token that stands after checking a guess, and whether the guess held."""
    seen = torch.tensor([before], device=scores.device)
    if config.temperature == 0:
        token = int(next_token(scores, config, None, seen))
        return token, token == guess
    p = softmax(filtered(scores, config, seen))
    if guess is None:
        return int(sample_from_uniform(p, u[:1])), False
    q = one_hot(torch.tensor([guess], device=p.device), p.shape[-1], p.dtype) if share is None else share
    kept = acceptance(p[:, guess], q[:, guess])
    if u[0] < kept:
        return guess, True
    # of the numbers above the threshold each is as likely as any other, so one of them decides the second draw too
    again = ((u[:1] - kept) / (1 - kept)).clamp(0, 1 - 1e-12)
    return int(sample_from_uniform(residual_distribution(p, q), again)), False
