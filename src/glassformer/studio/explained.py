"""What a run of a kind has nothing to show for, in words."""

from collections.abc import Callable
from typing import TypeVar

from glassformer.decoding.predictions import NoPredictionError
from glassformer.errors import NonFiniteError, TapeError

T = TypeVar("T")


def explained(compute: Callable[[], T]) -> T | dict[str, object]:
    """What is computed, or in words why a run of this kind has nothing to show."""
    try:
        return compute()
    except (NoPredictionError, NonFiniteError, TapeError) as error:
        return {"problem": str(error), "candidates": []}
