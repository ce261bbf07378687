"""Write arithmetic as a person would: `0.1·1 + 1.2·0 − 0.1·0 + 1.4·1 = 1.5`."""

from collections.abc import Sequence

from torch import Tensor

DIGITS = 4
SHOWN = 8  # longer sums show their first terms and add up the rest
MINUS = "−"


def number(value: Tensor | float, digits: int = DIGITS) -> str:
    """A number in a few significant digits, with a true minus sign."""
    text = f"{float(value):.{digits}g}"
    return text.replace("inf", "∞").replace("-", MINUS, 1) if text.startswith("-") else text.replace("inf", "∞")


def factor(value: Tensor | float) -> str:
    """A number fit to stand behind a sign or a dot: negative ones in brackets."""
    text = number(value)
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
