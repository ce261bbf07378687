"""Did you mean: the nearest known names to an unknown one."""

import difflib
from collections.abc import Iterable


def nearest_names(name: str, names: Iterable[str]) -> list[str]:
    """Up to three known names close to a mistyped one, the closest first; dotted names may match in their last part."""
    known, end = list(names), name.rpartition(".")[2]
    slips = difflib.get_close_matches(name, known, cutoff=0.85)
    slips = [each for each in slips if difflib.get_close_matches(end, [each.rpartition(".")[2]], cutoff=0.8)]
    if close := slips or sorted((each for each in known if "." in name and name in each), key=len)[:3]:
        return close
    group = [each for each in known if "." in name and each.startswith(name[: -len(end)])]
    for among in (group, known):
        ends = {each.rpartition(".")[2]: each for each in among}
        slips = difflib.get_close_matches(end, ends, cutoff=0.8)
        short = [each for each in ends if len(end) > 1 and end == "".join(word[0] for word in each.split("_"))]
        longer = sorted((each for each in ends if len(end) > 2 and end in each), key=len)[:3]
        if close := list(dict.fromkeys([*slips, *short, *longer])) or difflib.get_close_matches(end, ends):
            return [ends[each] for each in close[:3]]
    return difflib.get_close_matches(name, known, cutoff=0.5)


def did_you_mean(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """The end of an error about an unknown name: the nearest known ones, or else `otherwise` or the first few."""
    known = list(names)
    if close := nearest_names(name, known):
        return f"did you mean {' or '.join(close)}?"
    return otherwise or f"wanted one of {', '.join(known[:12])}{', …' if len(known) > 12 else ''}"
