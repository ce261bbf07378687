"""The decode loop: prefill the prompts, then read one token of each text per step and choose the next."""

import warnings
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from glassformer.decoding.completion import Finish, PartialText
from glassformer.decoding.config import COMPACT_BELOW, GenerationConfig
from glassformer.decoding.sampling import Sampler, SpecialTokens, left_filled, random_numbers
from glassformer.errors import DecodingError
from glassformer.inference.compiled_step import STEPS_PER_SYNC, CompiledStep
from glassformer.inference.prepare import Generator
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.model import Model
from glassformer.text.tokenizer import Tokenizer

Prompts = Sequence[Sequence[int]]
NUMBERS_AT_ONCE = 4096  # random numbers of a text that are drawn before it begins


def encode_prompts(model: Model, tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Token ids of texts as a model reads them: prompts for a language model, whole inputs for any other."""
    return (tokenizer.encode_inputs if model.reads_source else tokenizer.encode_prompts)(texts)


def special_tokens(model: Generator, tokenizer: Tokenizer, config: GenerationConfig) -> SpecialTokens:
    """The ids that start and end a text, and those that stand for no token."""
    ends, unused = tokenizer.ends | set(config.stop_ids), tokenizer.unused_ids(model.config.vocab)
    return SpecialTokens(tokenizer.decoder_start if model.reads_source else 0, tuple(sorted(ends)), tuple(unused))


def begin_text(
    model: Generator, tokenizer: Tokenizer, prompt: Sequence[int], config: GenerationConfig, slides: bool = False
) -> PartialText:
    """An empty text after a prompt, which is checked against the model's vocabulary and, unless it slides, context."""
    vocab, context = model.config.vocab, model.max_length
    config.check_vocabulary(vocab)
    highest = max(prompt, default=0)
    if highest >= vocab:
        raise DecodingError(f"the tokenizer gives the id {highest}, wanted ids below {vocab}, the model's vocabulary")
    context = None if slides else context
    if context is not None and len(prompt) > context:
        raise DecodingError(f"the prompt has {len(prompt)} tokens, wanted at most {context}, the model's context")
    new = config.max_new_tokens
    left = new if context is None else context - len(model.decoder_input(prompt, 0))
    limit: tuple[int, Finish] = (new, "length") if new <= left else (left, "context")
    ends, before = tokenizer.ends | frozenset(config.stop_ids), () if model.reads_source else prompt
    return PartialText(tokenizer, before, ends, config.stop_texts, *limit)


class DecodeLoop:
    """Texts generated together, `config.n` for each prompt, by the model or by a compiled step.

    A text that outgrows the model's context is continued from its last tokens, as many as the model can read. They get
    new positions with each token, so all of them are read again; a model that reads past its context needs no such
    window.
    """

    def __init__(self, model: Generator, prompts: Prompts, config: GenerationConfig, special: SpecialTokens) -> None:
        self.model, self.config, self.step = model, config, 0
        device = model.embedding.weight.device
        self.choose = Sampler(config, special, device)
        inputs = [model.decoder_input(row, special.start) for row in prompts]
        width = max(map(len, inputs))
        slides = isinstance(model, CausalLM) and not model.reads_past_context
        self.context = model.max_length if slides else None
        if self.context is None:
            self.cache = model.prefill(prompts, width + config.max_new_tokens, config.prefill_chunk)
            self.steps_left = config.max_new_tokens
        else:
            if width > self.context:
                kept = f"the model's context is {self.context}: only its last {self.context} are read"
                warnings.warn(f"a prompt has {width} tokens, and {kept}", stacklevel=5)
            self._read([row[-self.context :] for row in prompts])
        self.seen = left_filled(inputs, config, device)
        if config.n > 1:
            copies = torch.arange(len(prompts), device=device).repeat_interleave(config.n)
            self.cache.select(copies)
            self.seen = self.seen[copies]
        self.next = self.seen[:, -1:]
        self.lengths = [len(row) for row in inputs for _ in range(config.n)]
        self.samples = [(row, i) for row in prompts for i in range(config.n)]
        self.numbers = self._draw(min(config.max_new_tokens, NUMBERS_AT_ONCE))
        self.compiled = None
        if config.compile and self.steps_left:
            most = min(config.max_new_tokens, self.steps_left)
            self.compiled = CompiledStep.of(model, self.cache, self.choose, self.seen, most)
            self.numbers = self._draw(most)
            self.compiled.begin(self.cache, self.next, self.seen, self.numbers)

    def _read(self, rows: Prompts) -> None:
        """Read texts into a new cache, and count the steps until the longest has outgrown the context."""
        assert self.context is not None
        longest = max(map(len, rows))
        slots = min(longest + self.config.max_new_tokens, self.context)
        self.cache = self.model.prefill(rows, slots, self.config.prefill_chunk)
        self.steps_left = self.context - longest + 1

    def _draw(self, count: int) -> Tensor | None:
        """The first random numbers of every text; those before stay the same however many there are."""
        if self.config.temperature == 0:
            return None
        config = replace(self.config, max_new_tokens=count, min_new_tokens=0)
        numbers = [random_numbers(row, sample, config) for row, sample in self.samples]
        return torch.stack(numbers).to(self.seen.device)

    def next_tokens(self) -> tuple[list[list[int]], list[list[float]]]:
        """The next tokens of every text and their log-probabilities, [steps][texts]: one step, or several compiled."""
        if self.compiled is not None and self.steps_left:
            return self._compiled_tokens(self.compiled)
        if not self.steps_left:
            assert self.context is not None
            self.compiled = None
            texts = zip(self.seen.tolist(), self.lengths, strict=True)
            self._read([row[-min(length + self.step, self.context) :] for row, length in texts])
        logits = self.model.decode_step(self.next, self.cache)[:, -1]
        self.steps_left -= 1
        if self.numbers is not None and self.step == self.numbers.shape[1]:
            self.numbers = self._draw(2 * self.step)
        u = None if self.numbers is None else self.numbers[:, self.step]
        chosen, log_p = self.choose(logits, self.step, u, self.seen)
        self.seen = torch.cat([self.seen, chosen[:, None]], 1)
        self.next, self.step = chosen[:, None], self.step + 1
        return [chosen.tolist()], [log_p.tolist()]

    def _compiled_tokens(self, compiled: CompiledStep) -> tuple[list[list[int]], list[list[float]]]:
        """The tokens of several compiled steps, which are remembered in case the context ends before the text."""
        steps = min(STEPS_PER_SYNC, self.steps_left, self.config.max_new_tokens - self.step)
        tokens, log_probabilities = compiled.tokens(self.step, self.step + steps)
        self.seen = torch.cat([self.seen, torch.tensor(tokens, device=self.seen.device).T], 1)
        self.next, self.step, self.steps_left = self.seen[:, -1:], self.step + steps, self.steps_left - steps
        return tokens, log_probabilities

    def compact(self, rows: Sequence[int]) -> bool:
        """Drop all other texts once enough are finished to make that pay; a compiled step has a fixed batch."""
        if self.compiled is not None or len(rows) > COMPACT_BELOW * len(self.next):
            return False
        live = torch.tensor(rows, device=self.next.device)
        self.cache.select(live)
        self.next, self.seen = self.next[live], self.seen[live]
        self.lengths, self.samples = [self.lengths[row] for row in rows], [self.samples[row] for row in rows]
        self.numbers = None if self.numbers is None else self.numbers[live]
        return True
