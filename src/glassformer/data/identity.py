"""Tell whether data is still what a run began with."""

from collections.abc import Mapping

from glassformer.errors import DataError

OF_THE_DATA = ("pairs", "texts", "tokens", "checksum")  # the rest of an identity was set


def require_same_data(now: Mapping[str, int], before: Mapping[str, int], what: str = "the data") -> None:
    """Raise unless data has the identity that a checkpoint holds; `what` is which data."""
    for name, here in now.items():
        if name not in before:
            raise DataError(f"the place in {what} has no {name!r}")
        if before[name] == here:
            continue
        if name in OF_THE_DATA:
            changed = f"{what} has changed since the run began ({name} {before[name]}, now {here})"
            raise DataError(f"{changed}: put it back as it was, or begin another run")
        raise DataError(f"the place in {what} is for {name} {before[name]}, here {name} is {here}")
