"""Retrieval: candidates ranked by the cosine of their embeddings with that of a query, and pictures for a CLIP."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Float
from torch import Tensor

from glassformer.data.captions import Pictures, fit_pictures, require_pictures
from glassformer.data.image_arrays import picture_bytes
from glassformer.data.images import read_image
from glassformer.equations.similarity import nearest_by_cosine
from glassformer.errors import ModelError
from glassformer.models.clip import CLIP

Picture: TypeAlias = Path | np.ndarray  # a file, or bytes or floats from 0 to 1 [height, width(, channels)]


@dataclass(frozen=True)
class Ranked:
    """A candidate, its number, and the cosine of its embedding with that of the query."""

    candidate: str
    index: int
    similarity: float


def read_picture(model: CLIP, picture: Picture) -> Pictures:
    """A picture as the model reads it, [1, size, size, channels]: a file is scaled and its center cropped."""
    size, channels = model.config.image_size, model.config.channels
    if isinstance(picture, Path):
        return read_image(picture, size, channels, "bicubic", "crop")[None]
    if not isinstance(picture, np.ndarray):
        raise ModelError(f"a picture is of the type {type(picture).__name__}, wanted a path or an array of bytes")
    return fit_pictures(require_pictures(picture_bytes(picture)[None], "the picture"), size, channels, "the picture")


def rank(
    query: Float[Tensor, " dim"], candidates: Float[Tensor, "count dim"], names: Sequence[str], top_k: int | None = None
) -> list[Ranked]:
    """Candidates by the cosine of their embedding with that of a query, best first; all of them, or `top_k`."""
    if len(names) != len(candidates):
        raise ModelError(f"{len(names)} names are given for {len(candidates)} candidates, wanted one for each")
    if not len(candidates):
        return []
    count = len(candidates) if top_k is None else min(top_k, len(candidates))
    indices, cosines = nearest_by_cosine(query, candidates, count)
    return [Ranked(names[int(i)], int(i), c) for i, c in zip(indices.tolist(), cosines.tolist(), strict=True)]
