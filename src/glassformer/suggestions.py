"""Did you mean: the nearest known names to an unknown one."""

import difflib
from collections.abc import Iterable


def nearest_names(name: str, names: Iterable[str]) -> list[str]:
    """Up to three known names close to a mistyped one, the closest first; dotted names may match in their last part."""
    known = list(names)
    by_end = {each.rpartition(".")[2]: each for each in known}
    ends = difflib.get_close_matches(name.rpartition(".")[2], by_end)
    close = (
        difflib.get_close_matches(name, known, cutoff=0.85)
        or sorted((each for each in known if name and name in each), key=len)[:3]
        or [by_end[end] for end in ends]
    )
    return close or difflib.get_close_matches(name, known, cutoff=0.5)


def did_you_mean(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """The end of an error about an unknown name: the nearest known ones, or else `otherwise` or the first few."""
    known = list(names)
    if close := nearest_names(name, known):
        return f"did you mean {' or '.join(close)}?"
    return otherwise or f"wanted one of {', '.join(known[:12])}{', …' if len(known) > 12 else ''}"
