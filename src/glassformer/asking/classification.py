"""The class of a text, by a classifier."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

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
    names = class_names(labels, encoder.config.classes, name)
    batches = (run_encoder(encoder, *batch) for batch in read_texts(encoder, tokenizer, texts))
    return [one for logits in batches for one in classifications(logits, names)]


def class_names(labels: Sequence[str] | None, classes: int, name: str) -> list[str]:
    """The labels of a classifier, or the numbers of its classes; `name` is the model's, for errors."""
    names = list(labels or map(str, range(classes)))
    if len(names) != classes:
        raise CheckpointError(f"{name}: has {len(names)} labels for {classes} classes")
    return names


def classifications(logits: Tensor, names: Sequence[str]) -> list[Classification]:
    """The most likely label of each row of logits, and the probabilities of all."""
    best: list[int] = greedy(logits).tolist()
    rows: list[list[float]] = softmax(logits.float()).tolist()
    pairs = zip(best, rows, strict=True)
    return [Classification(names[at], row[at], dict(zip(names, row, strict=True))) for at, row in pairs]
