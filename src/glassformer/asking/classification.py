"""The class of a text, by a classifier."""

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.asking.reading import read_texts, require_encoder, run_encoder
from glassformer.equations.sampling import greedy
from glassformer.equations.softmax import softmax
from glassformer.errors import CheckpointError
from glassformer.layers.model import Model
from glassformer.models.causal_classifier import CausalClassifier
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Classification:
    """The most likely label of a text or mask, its probability, and the probabilities of all labels or the top few."""

    label: str
    probability: float
    probabilities: dict[str, float]


def classify(
    model: Model, tokenizer: Tokenizer, labels: Sequence[str] | None, texts: Sequence[str], name: str
) -> list[Classification]:
    """The label of each text and the probabilities of all labels; `name` is the model's, for errors."""
    encoder = model if isinstance(model, CausalClassifier) else require_encoder(model, "classify", "classifier")
    names = list(labels or map(str, range(encoder.config.classes)))
    if len(names) != encoder.config.classes:
        raise CheckpointError(f"{name}: has {len(names)} labels for {encoder.config.classes} classes")
    return [
        Classification(names[best], row[best], dict(zip(names, row, strict=True)))
        for logits in (run_encoder(encoder, *batch) for batch in read_texts(encoder, tokenizer, texts))
        for best, row in zip(greedy(logits).tolist(), softmax(logits.float()).tolist(), strict=True)
    ]
