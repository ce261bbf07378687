"""Texts as batches that a model reads when it is asked, encoded and cut as in evaluation."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from glassformer.data.padded_batches import LabeledBatches
from glassformer.errors import ModelError
from glassformer.inference.prepare import inference_mode, require_source_reader
from glassformer.layers.causal_lm import CausalLM
from glassformer.layers.encoder_decoder import EncoderDecoder
from glassformer.layers.image_classifier import ImageClassifier
from glassformer.layers.model import Model
from glassformer.layers.regressor import Regressor
from glassformer.models.causal_classifier import CausalClassifier
from glassformer.models.encoder import Encoder
from glassformer.models.image_autoencoder import ImageAutoencoder
from glassformer.text.tokenizer import Tokenizer

BATCH = 256  # texts that a model reads at once, as in evaluation, so that the numbers are the same


def device_of(model: Model) -> torch.device:
    """The device of a model's weights."""
    return next(model.parameters()).device


def kind_of_input(model: Model) -> str:
    """What a model reads that reads no text, or nothing for one that does."""
    if isinstance(model, ImageClassifier | ImageAutoencoder):
        return "pictures"
    return "numbers" if isinstance(model, Regressor) else ""


def require_summarizer(model: Model) -> None:
    """Raise on a model without an encoder, which cannot summarize."""
    require_source_reader(model, "summarize")


def max_length(model: Model) -> int | None:
    """The longest input of a model in tokens, or None if there is no limit."""
    return model.max_length if isinstance(model, CausalLM | EncoderDecoder) else vars(model.config).get("context")


def read_texts(model: Model, tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[tuple[Tensor, Tensor]]:
    """Ids and attention masks of texts, batch by batch."""
    limit = min((size for size in (max_length(model), tokenizer.use.max_length) if size is not None), default=None)
    if isinstance(model, CausalLM):
        rows = [row[:limit] for row in tokenizer.encode_prompts(texts)]
    else:
        rows = tokenizer.encode_inputs(texts, limit)
    pad = 0 if tokenizer.pad is None else tokenizer.pad
    for batch in LabeledBatches(rows, [0] * len(rows), BATCH, pad, seed=0).once() if rows else ():
        yield batch["ids"].to(device_of(model)), batch["attention_mask"].to(device_of(model))


def run_encoder(model: Encoder | CausalClassifier, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
    """The output of an encoder or a classifier without dropout, even in the middle of its training."""
    model.check(ids, attention_mask)
    with inference_mode(model):
        return model(ids, attention_mask)


def require_encoder(model: Model, task: str, *heads: str) -> Encoder:
    """The model, if it is an encoder with one of these heads."""
    if not isinstance(model, Encoder):
        raise ModelError(f"{type(model).__name__} does not {task}, wanted an encoder with a {heads[0]} head")
    if model.config.head not in heads:
        raise ModelError(f"head is {model.config.head}, wanted {' or '.join(heads)} to {task}")
    return model
