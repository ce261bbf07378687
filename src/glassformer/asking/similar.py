"""Nearest words by word vectors, nearest texts or pictures by theirs, and a map of words in two dimensions."""

from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

from glassformer.asking.retrieval import Picture
from glassformer.charts import labeled_points
from glassformer.checkpoints.vectors import Neighbor, WordVectors
from glassformer.checkpoints.word_tests import word_vectors
from glassformer.equations.components import principal_components
from glassformer.equations.similarity import nearest_by_cosine
from glassformer.errors import ModelError, require_type
from glassformer.layers.model import Model
from glassformer.models.word2vec import SkipGram
from glassformer.text.tokenizer import Tokenizer

MAP_TITLE = "Word vectors by their first two principal components"
FEWEST = 3  # words of a map: two are always on a line


def own_vectors(model: Model, tokenizer: Tokenizer) -> WordVectors:
    """The word vectors of a model that was trained for them."""
    if not isinstance(model, SkipGram):
        what = f"{type(model).__name__} has no word vectors, wanted a model trained by skip-gram"
        raise ModelError(f"{what}; with candidates, the nearest texts among them are found")
    return word_vectors(model, tokenizer)


def nearest_candidates(
    embed: Callable[[list[str | Picture]], Tensor], query: str | Picture, candidates: list[str | Picture], top_k: int
) -> list[Neighbor]:
    """The candidates whose vectors have the largest cosine with that of a text or picture, best first."""
    require_type(ModelError, "top_k", top_k, int, "a whole number")
    if not candidates:
        raise ModelError("there are no candidates, wanted at least one text to compare with")
    if top_k < 1:
        raise ModelError(f"top_k is {top_k}, wanted at least 1")
    wanted, vectors = embed([query, *candidates]).float().split([1, len(candidates)])
    rows, cosines = nearest_by_cosine(wanted[0], vectors, min(top_k, len(candidates)))
    names = [
        f"picture {number}" if isinstance(each, np.ndarray) else str(each) for number, each in enumerate(candidates)
    ]
    return [Neighbor(names[row], cosine) for row, cosine in zip(rows.tolist(), cosines.tolist(), strict=True)]


def word_map(vectors: WordVectors, words: Sequence[str]) -> str:
    """An SVG picture of some words, each where the first two principal components of their directions put it."""
    distinct = list(dict.fromkeys(words))
    if len(distinct) < FEWEST:
        raise ModelError(f"{len(distinct)} different words are given, wanted at least {FEWEST} for a map")
    if vectors.vectors.shape[1] < 2:
        raise ModelError("the word vectors have a single number, wanted at least two for a map")
    rows = [vectors.row(word) for word in distinct]
    x, y = principal_components(vectors.directions[rows].double(), 2).unbind(1)
    return labeled_points(dict(zip(distinct, zip(x.tolist(), y.tolist(), strict=True), strict=True)), MAP_TITLE)
