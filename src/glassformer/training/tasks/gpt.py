"""Causal language modeling: predict each next token of running text; evaluated by perplexity and bits per byte."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Integer

from glassformer.data.packed_batches import PackedBatches
from glassformer.equations.losses import bits_per_byte
from glassformer.errors import DataError
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.config import Config
from glassformer.layers.model import Model
from glassformer.models.gpt import GPTConfig
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.objective import NEXT_TOKEN
from glassformer.training.running_text import RunningText, TextSet, TextSettings
from glassformer.training.task import Generate, Metrics, Progress, Record, predict, silent


@dataclass(frozen=True, kw_only=True)
class GPTSettings(TextSettings):
    """A language model from running text."""

    model: Config = GPTConfig(dim=128, layers=4, heads=4, context=128)


@dataclass(frozen=True, kw_only=True)
class LanguageModelMetrics(Metrics):
    """A language model on running text."""

    perplexity: float
    bits_per_byte: float
    tokens: int
    bytes: int


class LanguageModelSet(TextSet):
    """Running text to predict."""

    def evaluate(
        self, model: Model, generate: Generate, progress: Progress = silent, record: Record | None = None
    ) -> LanguageModelMetrics:
        """Loss on every token but the first, and bits per byte of the text after it."""
        text_bytes = self.text_bytes()
        if not text_bytes:
            raise DataError("the text is too short to be evaluated: nothing follows its first token")
        found = predict(model, self.batches, NEXT_TOKEN, progress)
        if record is not None:
            for window in found.by_example():
                text = self.decode(window.targets.tolist())
                record({"text": text, "tokens": len(window.targets), "loss": window.loss})
        return LanguageModelMetrics(
            loss=found.loss,
            perplexity=found.perplexity,
            bits_per_byte=bits_per_byte(nats=float(found.losses.sum()), bytes=text_bytes),
            tokens=len(found.losses),
            bytes=text_bytes,
        )


class CausalLanguageModeling(RunningText[GPTSettings]):
    """Train a decoder to predict each next token."""

    settings = GPTSettings
    protocol = CausalLM
    objective = NEXT_TOKEN
    text_set = LanguageModelSet
    for_model = staticmethod(Tokenizer.for_decoder)

    def batches(
        self, tokenizer: Tokenizer, tokens: Integer[np.ndarray, " tokens"], rows: int, length: int, *shard: int
    ) -> PackedBatches:
        """Windows, and the same one token further as targets."""
        return PackedBatches(tokens, rows, length, *shard)
