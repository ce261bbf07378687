"""Compare computed numbers with the right ones, and printed numbers with computed ones."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec
from torch import Tensor

from glassformer.arithmetic import is_noise

Standing: TypeAlias = Literal["reproduced", "rounding", "corrected"]
STANDINGS: tuple[Standing, ...] = ("reproduced", "rounding", "corrected")  # from best to worst

# Relative tolerance between our numbers and the right ones: float64 keeps 15 digits, and sums in another order lose a
# few of them.
RELATIVE = 1e-9
# Where terms cancel, what is left of them is noise: up to this fraction of the largest number in the same table, or of
# one in a table that holds nothing but noise. How much is left depends on the processor.
NOISE = 1e-12

# How far a number in print may be from the computed one, in units of its last digit: half a unit is correct rounding,
# a whole one is a last digit rounded the wrong way, or twice.
ROUNDED = 0.5 + 1e-6
LAST_DIGIT = 1.0 + 1e-6
# A figure given in passing, such as 1.5 billion, is right within this fraction.
ROUND_FIGURE = 0.05
# Averages over random draws may differ by this much.
DRAWN = 0.05

Rule: TypeAlias = Callable[[object, object, Mapping[str, object]], bool]
Pair: TypeAlias = tuple[str, object, object]


class Compared(msgspec.Struct, frozen=True):
    """One printed entry beside the computed one: its name, such as `PE[1][3]`, and how it compares."""

    name: str
    printed: object
    value: object
    standing: Standing


def as_data(value: object) -> object:
    """Tensors, and tensors in lists, as plain numbers in lists."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [as_data(item) for item in value]
    if isinstance(value, dict):
        return {key: as_data(item) for key, item in value.items()}
    return value


def _paired(name: str, a: object, b: object) -> Iterator[Pair]:
    """Entries at the same indices of two tables, by name; where shapes differ, the parts that do not match."""
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from _paired(f"{name}[{i}]", x, y)
    else:
        yield name, a, b


def _numbers(x: object, y: object) -> tuple[float, float] | None:
    """Both as numbers, unless one is text, a Boolean or a list."""
    for value in (x, y):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
    return msgspec.convert((x, y), tuple[float, float])


def same(computed: object, right: object) -> bool:
    """Whether two tables are equal: text and Booleans exactly, numbers up to float64 rounding."""
    pairs = [(_numbers(x, y), x, y) for _, x, y in _paired("", computed, right)]
    largest = max((abs(numbers[1]) for numbers, _, _ in pairs if numbers), default=0.0)
    noise = NOISE * (1.0 if largest == 0 or is_noise(largest) else largest)
    return all(
        math.isclose(*numbers, rel_tol=RELATIVE, abs_tol=noise) if numbers else x == y and type(x) is type(y)
        for numbers, x, y in pairs
    )


def near(computed: object, right: object, answer: Mapping[str, object]) -> bool:
    """For averages over random draws, which depend on the version of the generator."""
    numbers = [_numbers(x, y) for _, x, y in _paired("", computed, right)]
    return all(pair is not None and abs(pair[0] - pair[1]) <= DRAWN for pair in numbers)


def below(key: str) -> Rule:
    """For the outcome of training runs, whose digits mean nothing: it must be less than another value."""

    def is_below(computed: object, right: object, answer: Mapping[str, object]) -> bool:
        numbers = _numbers(computed, answer[key])
        return numbers is not None and numbers[0] < numbers[1]

    return is_below


def entries_beside(key: str, printed: object, computed: object, decimals: int | None) -> list[Compared]:
    """Every printed entry of a table beside the computed one; without decimals its numbers are round figures."""
    return [Compared(name, x, y, _standing(_gap(x, y, decimals))) for name, x, y in _paired(key, printed, computed)]


def compare(key: str, printed: object, computed: object, decimals: int | None) -> Compared:
    """The printed entry of a table that is farthest from the computed one."""
    found = [(_gap(x, y, decimals), name, x, y) for name, x, y in _paired(key, printed, computed)]
    gap, name, x, y = max(found, key=lambda entry: entry[0])
    return Compared(name, x, y, _standing(gap))


def _standing(gap: float) -> Standing:
    return "reproduced" if gap <= ROUNDED else "rounding" if gap <= LAST_DIGIT else "corrected"


def _gap(printed: object, computed: object, decimals: int | None) -> float:
    """How far apart two entries are, in units of the last printed digit."""
    numbers = _numbers(printed, computed)
    if numbers is None:
        return 0.0 if printed == computed else math.inf
    apart = abs(numbers[0] - numbers[1])
    if decimals is None:
        return 0.0 if apart <= ROUND_FIGURE * max(abs(numbers[0]), 1.0) else math.inf
    return apart * 10**decimals
