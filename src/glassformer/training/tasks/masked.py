"""Masked language modeling: predict the tokens of running text that are masked; evaluated by their accuracy."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Integer

from glassformer.data.packed_batches import MaskedBatches, Masking
from glassformer.equations.metrics import accuracy
from glassformer.layers.config import Config
from glassformer.layers.model import Model
from glassformer.models.encoder import Encoder, EncoderConfig
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.objective import Objective
from glassformer.training.running_text import RunningText, TextSet, TextSettings
from glassformer.training.task import Generate, Metrics, Progress, Record, predict, silent

MASKED_TOKENS = Objective(inputs=("ids",), targets="targets")


@dataclass(frozen=True, kw_only=True)
class MaskedSettings(TextSettings):
    """An encoder that predicts masked tokens, from running text."""

    model: Config = EncoderConfig(head="masked", dim=128, layers=4, heads=4, ffn_dim=512, context=128)


@dataclass(frozen=True, kw_only=True)
class MaskedMetrics(Metrics):
    """A masked language model on the tokens that were masked."""

    perplexity: float
    accuracy: float
    tokens: int


class MaskedSet(TextSet):
    """Running text with masked tokens, which depend only on the seed of the batches."""

    def evaluate(
        self, model: Model, generate: Generate, progress: Progress = silent, record: Record | None = None
    ) -> MaskedMetrics:
        """Loss and accuracy on the masked tokens."""
        found = predict(model, self.batches, MASKED_TOKENS, progress)
        if record is not None:
            for window in found.by_example():
                right, guessed = (
                    [self.decode([id]) for id in ids.tolist()] for ids in (window.targets, window.guesses)
                )
                record({"masked": right, "predicted": guessed, "loss": window.loss})
        right = float(accuracy(found.guesses, found.targets))
        return MaskedMetrics(loss=found.loss, perplexity=found.perplexity, accuracy=right, tokens=len(found.losses))


class MaskedLanguageModeling(RunningText[MaskedSettings]):
    """Train an encoder to predict masked tokens (Devlin et al., 2019)."""

    settings = MaskedSettings
    protocol = Encoder
    objective = MASKED_TOKENS
    text_set = MaskedSet
    config_values = {"head": "masked"}  # noqa: RUF012 - never changed
    for_model = staticmethod(Tokenizer.for_encoder)

    def batches(
        self, tokenizer: Tokenizer, tokens: Integer[np.ndarray, " tokens"], rows: int, length: int, *shard: int
    ) -> MaskedBatches:
        """Windows with masked tokens."""
        mask = tokenizer.required("mask")
        masking = Masking(mask=mask, vocab=tokenizer.vocab_size, specials=tokenizer.specials)
        return MaskedBatches(tokens, rows, length, masking, *shard)
