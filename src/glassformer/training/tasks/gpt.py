"""Causal language modeling: predict each next token of running text; evaluated by perplexity and bits per byte."""

from collections.abc import Callable
from dataclasses import dataclass

from glassformer.data.batches import PackedBatches
from glassformer.equations.losses import bits_per_byte
from glassformer.errors import DataError
from glassformer.layers.config import Config
from glassformer.layers.model import CausalLM, Model
from glassformer.models.gpt import GPTConfig
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.metrics import predict
from glassformer.training.objective import Objective
from glassformer.training.running_text import RunningText, TextSettings, Windows
from glassformer.training.task import EvaluationSet, Generate, Metrics, Progress, silent

NEXT_TOKEN = Objective(inputs=("ids",), targets="targets")


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


@dataclass(frozen=True)
class TextSet(EvaluationSet):
    """Running text, and the number of its bytes after the first token."""

    batches: PackedBatches
    text_bytes: Callable[[], int]

    def evaluate(self, model: Model, generate: Generate, progress: Progress = silent) -> LanguageModelMetrics:
        """Loss on every token but the first, and bits per byte of the text after it."""
        text_bytes = self.text_bytes()
        if not text_bytes:
            raise DataError("the text is too short to be evaluated: nothing follows its first token")
        found = predict(model, self.batches, NEXT_TOKEN, progress)
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

    def for_model(self, tokenizer: Tokenizer) -> Tokenizer:
        """The tokenizer for decoders."""
        return tokenizer.for_decoder()

    def batches(self, tokenizer: Tokenizer, windows: Windows) -> PackedBatches:
        """Windows, and the same one token further as targets."""
        w = windows
        return PackedBatches(w.tokens, w.rows, w.length, w.seed, w.rank, w.world)

    def text_set(self, batches: PackedBatches, text_bytes: Callable[[], int]) -> TextSet:
        """Batches to evaluate a model on."""
        return TextSet(batches, text_bytes)
