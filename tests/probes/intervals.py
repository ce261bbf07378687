"""Work out written arithmetic without trusting its digits: every printed number stands for all that print the same."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.arithmetic import as_python

DIGITS = 4


@dataclass(frozen=True)
class Interval:
    """All numbers from low to high."""

    low: float
    high: float

    def __add__(self, other: "Interval") -> "Interval":
        return Interval(self.low + other.low, self.high + other.high)

    def __neg__(self) -> "Interval":
        return Interval(-self.high, -self.low)

    def __sub__(self, other: "Interval") -> "Interval":
        return self + -other

    def __mul__(self, other: "Interval") -> "Interval":
        ends = [_product(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def __truediv__(self, other: "Interval") -> "Interval":
        if other.low <= 0 <= other.high:
            return Interval(-math.inf, math.inf)
        return self * Interval(1 / other.high, 1 / other.low)

    def __pow__(self, other: "Interval") -> "Interval":
        if self.low > 0:
            ends = [base**power for base in (self.low, self.high) for power in (other.low, other.high)]
            return Interval(min(ends), max(ends))
        power = round((other.low + other.high) / 2)
        ends = [self.low**power, self.high**power]
        return Interval(0.0 if power % 2 == 0 and self.low < 0 < self.high else min(ends), max(ends))

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def _product(a: float, b: float) -> float:
    return 0.0 if 0 in (a, b) else a * b


def printed(text: str) -> Interval:
    """The numbers that are printed like this one; one that is written with more digits is taken at its word."""
    value = float(text)
    if value == 0 or not math.isfinite(value):
        return Interval(value, value)
    half = 0.5 * 10 ** (math.floor(math.log10(abs(value))) - DIGITS + 1)
    return Interval(value - half, value + half)


def _rising(function: Callable[[float], float]) -> Callable[[Interval], Interval]:
    return lambda x: Interval(function(x.low), function(x.high))


def _wave(function: Callable[[float], float]) -> Callable[[Interval], Interval]:
    """A function that never rises or falls faster than one for one."""

    def waved(x: Interval) -> Interval:
        middle, half = (x.low + x.high) / 2, (x.high - x.low) / 2
        return Interval(function(middle) - half, function(middle) + half)

    return waved


def _abs(x: Interval) -> Interval:
    ends = abs(x.low), abs(x.high)
    return Interval(0.0 if x.low <= 0 <= x.high else min(ends), max(ends))


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


NAMES = {
    "sqrt": _rising(lambda x: math.sqrt(max(x, 0))), "exp": _rising(_exp), "tanh": _rising(math.tanh),
    "ln": _rising(lambda x: math.log(x) if x > 0 else -math.inf), "sin": _wave(math.sin), "cos": _wave(math.cos),
    "Phi": _rising(lambda x: 0.5 * (1 + math.erf(x / math.sqrt(2)))),
    "abs": _abs, "max": lambda a, b: Interval(max(a.low, b.low), max(a.high, b.high)),
    "min": lambda a, b: Interval(min(a.low, b.low), min(a.high, b.high)),
    "pi": Interval(math.pi, math.pi), "inf": Interval(math.inf, math.inf), "N": printed,
}  # fmt: skip


def work_out(text: str) -> Interval:
    """The numbers that written arithmetic can stand for, by ordinary rules."""
    text = re.sub(r"(?<![\w.])(\d+\.?\d*(?:e[-+]?\d+)?)", r'N("\1")', as_python(text))
    return eval(text, {"__builtins__": {}}, NAMES)
