"""How many cases a property is tried with."""

from hypothesis import settings

ORDINARY = 50


def cases(number: int) -> settings:
    """So many cases in every run of the suite, and twenty times as many in `--hypothesis-profile=nightly`."""
    return settings(max_examples=number * settings.default.max_examples // ORDINARY, deadline=None)
