"""The decode loop: prefill the prompts, then read one token of each text per step and choose the next."""

from collections.abc import Sequence

import torch

from glassformer.decoding.completion import Finish, PartialText
from glassformer.decoding.config import COMPACT_BELOW, GenerationConfig
from glassformer.decoding.sampling import Sampler, SpecialTokens, random_numbers
from glassformer.errors import DecodingError
from glassformer.inference.compiled_step import STEPS_PER_SYNC, CompiledStep
from glassformer.inference.prepare import Generator
from glassformer.layers.model import Model
from glassformer.text.tokenizer import Tokenizer

Prompts = Sequence[Sequence[int]]


def encode_prompts(model: Model, tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Token ids of texts as a model reads them: prompts for a language model, whole inputs for any other."""
    return (tokenizer.encode_inputs if model.reads_source else tokenizer.encode_prompts)(texts)


def special_tokens(model: Generator, tokenizer: Tokenizer, config: GenerationConfig) -> SpecialTokens:
    """The ids that start and end a text, and those that stand for no token."""
    ends, unused = tokenizer.ends | set(config.stop_ids), tokenizer.unused_ids(model.config.vocab)
    return SpecialTokens(tokenizer.decoder_start if model.reads_source else 0, tuple(sorted(ends)), tuple(unused))


def begin_text(model: Generator, tokenizer: Tokenizer, prompt: Sequence[int], config: GenerationConfig) -> PartialText:
    """An empty text after a prompt, which is checked against the model's vocabulary and context."""
    vocab, context = model.config.vocab, model.max_length
    config.check_vocabulary(vocab)
    highest = max(prompt, default=0)
    if highest >= vocab:
        raise DecodingError(f"the tokenizer gives the id {highest}, wanted ids below {vocab}, the model's vocabulary")
    if context is not None and len(prompt) > context:
        raise DecodingError(f"the prompt has {len(prompt)} tokens, wanted at most {context}, the model's context")
    new = config.max_new_tokens
    left = new if context is None else context - len(model.decoder_input(prompt, 0))
    limit: tuple[int, Finish] = (new, "length") if new <= left else (left, "context")
    ends, before = tokenizer.ends | frozenset(config.stop_ids), () if model.reads_source else prompt
    return PartialText(tokenizer, before, ends, config.stop_texts, *limit)


class DecodeLoop:
    """Texts generated together, `config.n` for each prompt, by the model or by a compiled step."""

    def __init__(self, model: Generator, prompts: Prompts, config: GenerationConfig, special: SpecialTokens) -> None:
        self.model, self.config, self.step = model, config, 0
        device = model.embedding.weight.device
        self.choose = Sampler(config, special, device)
        inputs = [model.decoder_input(row, special.start) for row in prompts]
        width = max(map(len, inputs))
        self.cache = model.prefill(prompts, width + config.max_new_tokens, config.prefill_chunk)
        # a token seen twice counts once, so the first of a row can fill what a shorter one leaves empty
        self.seen = torch.tensor([[row[0]] * (width - len(row)) + list(row) for row in inputs], device=device)
        if config.n > 1:
            copies = torch.arange(len(prompts), device=device).repeat_interleave(config.n)
            self.cache.select(copies)
            self.seen = self.seen[copies]
        self.next = self.seen[:, -1:]
        self.numbers = None
        if config.temperature > 0:
            numbers = [random_numbers(row, i, config) for row in prompts for i in range(config.n)]
            self.numbers = torch.stack(numbers).to(device)
        self.compiled = None
        if config.compile:
            self.compiled = CompiledStep.of(model, self.cache, self.choose, self.seen, config.max_new_tokens)
            self.compiled.begin(self.cache, self.next, self.seen, self.numbers)

    def next_tokens(self) -> tuple[list[list[int]], list[list[float]]]:
        """The next tokens of every text and their log-probabilities, [steps][texts]: one step, or several compiled."""
        if self.compiled is not None:
            start, self.step = self.step, min(self.step + STEPS_PER_SYNC, self.config.max_new_tokens)
            return self.compiled.tokens(start, self.step)
        logits = self.model.decode_step(self.next, self.cache)[:, -1]
        u = None if self.numbers is None else self.numbers[:, self.step]
        chosen, log_p = self.choose(logits, self.step, u, self.seen)
        self.seen = torch.cat([self.seen, chosen[:, None]], 1)
        self.next, self.step = chosen[:, None], self.step + 1
        return [chosen.tolist()], [log_p.tolist()]

    def compact(self, rows: Sequence[int]) -> bool:
        """Drop all other texts once enough are finished to make that pay; a compiled step has a fixed batch."""
        if self.compiled is not None or len(rows) > COMPACT_BELOW * len(self.next):
            return False
        live = torch.tensor(rows, device=self.next.device)
        self.cache.select(live)
        self.next, self.seen = self.next[live], self.seen[live]
        self.numbers = None if self.numbers is None else self.numbers[live]
        return True
