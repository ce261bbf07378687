"""Printed arithmetic such as `(0.1·1 + 1.2·0) / √(2) = 0.07071` as LaTeX."""

import re
from collections.abc import Sequence

_TOKEN = re.compile(r"\s*(\d[\d.]*(?:e-?\d+)?|[A-Za-z_]+|//|.)")
_SUMS = {"+": " + ", "−": " - "}
_PRODUCTS = {"·": r" \cdot ", "%": r" \bmod "}
_WORDS = {"∞": r"\infty", "π": r"\pi", "nan": r"\mathrm{NaN}", "NaN": r"\mathrm{NaN}"}
_FUNCTIONS = {"ln", "tanh", "sin", "cos", "min", "max", "exp"}  # which LaTeX knows
_IN_WORDS = re.compile(r"\((\S+) from (\d+) more\)|\(from ([^)]*)\)")


def arithmetic_latex(text: str) -> str:
    """The same arithmetic in LaTeX: products with dots, quotients as fractions; what is not arithmetic stays text."""
    if text.count("(") != text.count(")"):
        return _as_text(text)
    try:
        return " = ".join(_Reader(part).whole() for part in text.split(" = "))
    except _NotArithmeticError:
        return _as_text(text)


class _NotArithmeticError(Exception):
    pass


class _Reader:
    """Reads sums of products of powers, from left to right."""

    def __init__(self, text: str) -> None:
        self._said: list[re.Match[str]] = []  # what stands in words: `said_i`, `said_ii`, …

        def say(found: re.Match[str]) -> str:
            self._said.append(found)
            return f"said_{'i' * len(self._said)}"

        self._tokens = _TOKEN.findall(_IN_WORDS.sub(say, text.strip()))
        self._at = 0

    def whole(self) -> str:
        """All of it."""
        found = self._sum()
        if self._at < len(self._tokens):
            raise _NotArithmeticError
        return found

    def _next(self, wanted: Sequence[str] = ()) -> str:
        """Take the next token, if it is one of those wanted or if any will do; else nothing."""
        if self._at == len(self._tokens) or (wanted and self._tokens[self._at] not in wanted):
            return ""
        self._at += 1
        return self._tokens[self._at - 1]

    def _sum(self) -> str:
        found = ("-" if self._next("−") else "") + self._product()
        while sign := self._next(tuple(_SUMS)):
            found += _SUMS[sign] + self._product()
        return found

    def _product(self) -> str:
        found = self._power()
        while sign := self._next((*_PRODUCTS, "/", "//")):
            other = self._power()
            if sign in _PRODUCTS:
                found += _PRODUCTS[sign] + _in_brackets(other)
                continue
            quotient = rf"\frac{{{_bare(found)}}}{{{_bare(other)}}}"
            found = quotient if sign == "/" else rf"\left\lfloor {quotient} \right\rfloor"
        return found

    def _power(self) -> str:
        base = self._atom()
        while self._next("^"):
            base = rf"\left({base}\right)" if r"\times" in base else base  # 10 has its power already
            sign = "-" if self._next("−") else ""
            base = f"{base}^{{{sign}{_bare(self._atom())}}}"
        if self._at < len(self._tokens) and self._tokens[self._at].startswith("said_"):  # where a gradient came from
            base += rf"\ {_as_text(self._words(self._next())[0])}"
        return base

    def _words(self, token: str) -> re.Match[str]:
        return self._said[len(token) - len("said_") - 1]

    def _atom(self) -> str:
        token = self._next()
        if token == "(":
            return rf"\left({self._arguments()}\right)"
        if token == "√":
            return rf"\sqrt{{{_bare(self._atom())}}}"
        if token == "−":
            return f"-{self._power()}"
        if token[:1].isdigit():
            digits, mark, power = token.partition("e")
            return rf"{digits} \times 10^{{{power}}}" if mark else digits
        if token.startswith("said_") and self._words(token)[1]:
            value, count, _ = self._words(token).groups()
            return rf"\underbrace{{{_Reader(value).whole()}}}_{{\text{{{count} more}}}}"
        if token and self._next("("):
            name = rf"\{token}" if token in _FUNCTIONS else rf"\operatorname{{{_WORDS.get(token, token)}}}"
            return rf"{name}\left({self._arguments()}\right)"
        if token in _WORDS or token == "e":
            return _WORDS.get(token, token)
        raise _NotArithmeticError

    def _arguments(self) -> str:
        """What stands in brackets, up to and with the closing one."""
        found = self._sum()
        while self._next(","):
            found += f", {self._sum()}"
        if not self._next(")"):
            raise _NotArithmeticError
        return found


def _bare(text: str) -> str:
    """What stands in one pair of brackets, without them, for where a fraction or an exponent holds it together."""
    left, right = r"\left(", r"\right)"
    if not (text.startswith(left) and text.endswith(right)):
        return text
    inside, depth = text[len(left) : -len(right)], 0
    for mark in re.findall(r"\\left\(|\\right\)", inside):
        depth += 1 if mark == left else -1
        if depth < 0:  # two pairs beside each other
            return text
    return inside


def _in_brackets(text: str) -> str:
    return rf"\left({text}\right)" if text.startswith("-") else text


def _as_text(text: str) -> str:
    plain = re.sub(r"[\\^]", "", text)
    escaped = re.sub(r"([{}$&#%_])", r"\\\1", plain)
    return rf"\text{{{escaped}}}"
