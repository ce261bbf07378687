"""Write arithmetic as a person would: `0.1·1 + 1.2·0 − 0.1·0 + 1.4·1 = 1.5`."""

import math
from collections.abc import Sequence

from torch import Tensor

DIGITS = 4
SHOWN = 8  # longer sums show their first terms and add up the rest
MINUS = "−"
WRITTEN_OUT_BELOW = 1e7  # larger numbers take an exponent
# Rounding error of float64 where numbers near one cancel. Smaller numbers come from products alone and are real.
LEAST_NOISE, MOST_NOISE = 1e-20, 1e-14
LARGE = 1e3  # beside larger numbers, only the noise of this one counts as noise: more may be a real value
TELLING = 4  # significant digits of a difference that its two numbers show
MOST_DIGITS = 15  # that every float64 can hold


def is_noise(value: float, among: float = 0.0) -> bool:
    """Whether a number is rounding noise, by itself or beside numbers as large as `among`."""
    return LEAST_NOISE < abs(value) < MOST_NOISE or 0 < abs(value) < MOST_NOISE * min(among, LARGE)


def number(value: Tensor | float, digits: int = DIGITS, among: float = 0.0) -> str:
    """A number in a few significant digits, with a true minus sign; rounding noise is 0, and 10000 is written out."""
    x = float(value)
    if x == 0 or is_noise(x, among):
        return "0"
    text = f"{abs(x):.{digits}g}"
    if "e+" in text and abs(x) < WRITTEN_OUT_BELOW:
        text = f"{abs(x):.0f}"
    digits_shown, mark, power = text.partition("e")
    text = f"{digits_shown}e{int(power)}" if mark else text.replace("inf", "∞")
    return MINUS + text if x < 0 else text


def digits_apart(a: Tensor | float, b: Tensor | float, digits: int = DIGITS) -> int:
    """Number of significant digits needed to see the difference of two numbers; the usual ones if they are equal."""
    x, y = float(a), float(b)
    size, gap = max(abs(x), abs(y)), abs(x - y)
    if not 0 < gap < math.inf or is_noise(gap, size):
        return digits
    canceled = math.floor(math.log10(size / gap))
    return min(MOST_DIGITS, max(digits, canceled + TELLING))


def minus(a: Tensor | float, b: Tensor | float) -> str:
    """A difference, with enough digits to tell the two apart: `1.00002 − 1.00001`."""
    digits = digits_apart(a, b)
    return f"{number(a, digits)} {MINUS} {factor(b, digits)}"


def ratio(a: Tensor | float, b: Tensor | float) -> str:
    """A quotient, with enough digits to tell the two apart: `0.50002 / 0.50001`."""
    digits = digits_apart(a, b)
    return f"{number(a, digits)} / {factor(b, digits)}"


def factor(value: Tensor | float, digits: int = DIGITS) -> str:
    """A number as it is written after a sign or a dot: negative ones in brackets."""
    text = number(value, digits)
    return f"({text})" if text.startswith(MINUS) else text


def times(first: Tensor | float, *others: Tensor | float) -> str:
    """A product: `0.1·1`."""
    return "·".join([number(first), *map(factor, others)])


def total(terms: Sequence[str], values: Sequence[float]) -> str:
    """A sum of written terms; `values` are the same terms as numbers, for adding up those not shown."""
    count = max(len(terms), len(values))  # a caller may leave out writing the terms that are not shown
    shown = list(terms[: written_terms(count)])
    text = shown[0] if shown else "0"
    for term in shown[1:]:
        text += f" {MINUS} {term[1:]}" if term.startswith(MINUS) else f" + {term}"
    hidden = count - len(shown)
    return f"{text} + ({number(sum(values[len(shown) :]))} from {hidden} more)" if hidden else text


def written_terms(count: int) -> int:
    """How many terms of a sum of this many are written out."""
    return count if count <= SHOWN else SHOWN // 2


def dot(a: Tensor, b: Tensor) -> str:
    """A sum of products, term by term."""
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    return total([times(x, y) for x, y in pairs[: written_terms(len(pairs))]], [x * y for x, y in pairs])


def summed(values: Tensor) -> str:
    """A plain sum of numbers."""
    items = values.tolist()
    return total([number(x) for x in items], items)
