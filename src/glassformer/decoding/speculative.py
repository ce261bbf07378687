"""Speculative decoding: propose several tokens cheaply, verify all of them in one forward pass, keep the accepted ones.

Proposals come from a draft model, or from earlier text that followed the same tokens (prompt lookup). Greedy output is
unchanged, token for token; samples have exactly the model's distribution (Leviathan et al., 2023).
"""

import zlib
from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from glassformer.decoding.completion import Completion, PartialText
from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.loop import begin_text, encode_prompts, special_tokens
from glassformer.decoding.sampling import Sampler, filtered, log_probability, next_token
from glassformer.equations.information import one_hot
from glassformer.equations.sampling import acceptance, residual_distribution, sample_from_uniform
from glassformer.equations.softmax import softmax
from glassformer.errors import DecodingError
from glassformer.inference.prepare import Generator, inference_mode, require_generator
from glassformer.layers.model import Model
from glassformer.text.tokenizer import Tokenizer

LONGEST_MATCH = 3  # tokens at the end of a text that prompt lookup searches for; fewer where those are not found


class CachedReader:
    """A model that is given the whole text every time and reads only the tokens that are not in its cache."""

    def __init__(self, model: Generator, slots: int, headroom: int) -> None:
        self.model, self.headroom = model, headroom
        self.cache = model.new_cache(1, slots, headroom=headroom)  # pyright: ignore[reportArgumentType, reportCallIssue]

    def logits(self, text: Sequence[int], last: int) -> Tensor:
        """Logits [last, vocab] after each of the last tokens, none of which was read before."""
        ids = torch.tensor([text[self.cache.count :]], device=self.model.embedding.weight.device)
        before = ids.shape[1] - last
        self.cache.all_logits = False
        for part in ids[:, :before].split(self.headroom, 1) if before else ():
            self.model.decode_step(part, self.cache)
        self.cache.all_logits = True
        parts = ids[:, before:].split(self.headroom, 1)
        return torch.cat([self.model.decode_step(part, self.cache)[0] for part in parts])

    def rewind(self, length: int) -> None:
        """Drop what was read beyond this length."""
        self.cache.advance(min(0, length - self.cache.count))


class PromptLookup:
    """Proposes the tokens that followed the last few ones earlier in the text, each with probability 1."""

    def __init__(self, choose: Sampler, count: int) -> None:
        self.choose, self.count = choose, count

    def propose(self, text: Sequence[int], limit: int, u: Tensor) -> tuple[list[int], Tensor | None]:
        """Up to `limit` tokens that may come next, and the distributions they were drawn from, if any."""
        for size in range(min(LONGEST_MATCH, len(text) - 1), 0, -1):
            tail = list(text[-size:])
            for start in range(len(text) - size - 1, -1, -1):
                if list(text[start : start + size]) == tail:
                    return list(text[start + size : start + size + min(limit, self.count)]), None
        return [], None


class DraftModel(PromptLookup):
    """Proposes the tokens a smaller model chooses."""

    def __init__(self, choose: Sampler, count: int, reader: CachedReader) -> None:
        super().__init__(choose, count)
        self.reader = reader

    def propose(self, text: Sequence[int], limit: int, u: Tensor) -> tuple[list[int], Tensor | None]:
        """The draft model's choices, and when sampling the distributions they were drawn from."""
        context, config = self.reader.model.max_length, self.choose.config
        limit = limit if context is None else min(limit, context - len(text))
        self.reader.rewind(len(text) - 1)
        proposed: list[int] = []
        distributions: list[Tensor] = []
        for i in range(max(0, min(limit, self.count))):
            so_far = [*text, *proposed]
            logits = self.reader.logits(so_far, 1)
            seen = torch.tensor([so_far], device=logits.device)
            logits = self.choose.allowed(logits, config.min_new_tokens, seen)
            proposed.append(int(next_token(logits, config, u[i : i + 1], seen)))
            if config.temperature > 0:
                distributions.append(softmax(filtered(logits, config, seen)))
        return proposed, torch.cat(distributions) if distributions else None


def speculate(
    model: Model,
    tokenizer: Tokenizer,
    prompts: str | Sequence[str],
    config: GenerationConfig,
    draft: Model | None = None,
    guesses: int = 4,
) -> list[Completion]:
    """Continue prompts like `generate`, with `guesses` tokens per pass from a draft model or from prompt lookup."""
    target = _require_rewindable(model, config, draft, guesses)
    texts = [prompts] if isinstance(prompts, str) else list(prompts)
    found: list[Completion] = []
    choose = Sampler(config, special_tokens(target, tokenizer, config), target.embedding.weight.device)
    headroom = max(config.prefill_chunk, guesses + 1)
    with inference_mode(target), nullcontext() if draft is None else inference_mode(draft):
        for ids in encode_prompts(target, tokenizer, texts):
            for sample in range(config.n):
                text = begin_text(target, tokenizer, ids, config)
                slots = len(ids) + max(1, text.max_tokens) + guesses + 1
                proposer = PromptLookup(choose, guesses)
                if draft is not None:
                    proposer = DraftModel(choose, guesses, CachedReader(require_generator(draft), slots, headroom))
                seed = zlib.crc32(repr((config.seed, ids, sample, "guess")).encode())
                reader, generator = CachedReader(target, slots, headroom), torch.Generator().manual_seed(seed)
                _propose_and_verify(text, reader, proposer, generator)
                found.append(text.done())
    return found


def _require_rewindable(model: Model, config: GenerationConfig, draft: Model | None, guesses: int) -> Generator:
    target = require_generator(model)
    if config.num_beams > 1:
        raise DecodingError(f"num_beams is {config.num_beams}, wanted 1 for speculative decoding: it follows one text")
    if guesses < 1:
        raise DecodingError(f"guesses is {guesses}, wanted at least 1")
    for one in (target, *([] if draft is None else [require_generator(draft)])):
        if not one.can_rewind:
            raise DecodingError(f"{type(one).__name__} cannot decode speculatively: its cache cannot rewind")
        if one.config.vocab != target.config.vocab:
            wanted = f"{target.config.vocab} as the model has"
            raise DecodingError(f"the draft has a vocabulary of {one.config.vocab}, wanted {wanted}")
    return target


def _propose_and_verify(
    text: PartialText, reader: CachedReader, proposer: PromptLookup, generator: torch.Generator
) -> None:
    choose, device = proposer.choose, reader.model.embedding.weight.device
    while text.finish_reason is None:
        known = [*text.prompt, *text.ids]
        limit = text.max_tokens - len(text.ids) - 1
        u = torch.rand(2 * proposer.count + 1, dtype=torch.float64, generator=generator).to(device)
        proposed, distributions = proposer.propose(known, limit, u) if limit > 0 else ([], None)
        reader.rewind(len(known) - 1)
        logits = reader.logits([*known, *proposed], len(proposed) + 1)
        for i in range(len(proposed) + 1):
            before, numbers = [*known, *proposed[:i]], u[proposer.count + i :]
            row = choose.allowed(logits[i : i + 1], len(text.ids), torch.tensor([before], device=device))
            proposal = proposed[i] if i < len(proposed) else None
            q = None if distributions is None or proposal is None else distributions[i : i + 1]
            token, accepted = verify(row, proposal, q, choose.config, numbers, before)
            text.add(token, float(log_probability(row, torch.tensor([token], device=row.device))))
            if text.finish_reason is not None or not accepted:
                break


def verify(
    logits: Tensor, proposal: int | None, q: Tensor | None, config: GenerationConfig, u: Tensor, before: list[int]
) -> tuple[int, bool]:
    """The token after verifying one drawn from `q`, or proposed without a distribution, and whether it was accepted."""
    seen = torch.tensor([before], device=logits.device)
    if config.temperature == 0:
        token = int(next_token(logits, config, None, seen))
        return token, token == proposal
    p = softmax(filtered(logits, config, seen))
    if proposal is None:
        return int(sample_from_uniform(p, u[:1])), False
    q = one_hot(torch.tensor([proposal], device=p.device), p.shape[-1], p.dtype) if q is None else q
    accept = acceptance(p[:, proposal], q[:, proposal])
    if u[0] < accept:
        return proposal, True
    # above the threshold the number is uniform again, so it decides the second draw too
    again = ((u[:1] - accept) / (1 - accept)).clamp(0, 1 - 1e-12)
    return int(sample_from_uniform(residual_distribution(p, q), again)), False
