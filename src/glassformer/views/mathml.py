r"""Formulas as MathML, with each letter of an equation's table marked where it stands: `<mi data-symbol="q">Q</mi>`."""

import functools
import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from glassformer.entry import Symbol
from glassformer.errors import MissingExtraError

NAMED_CHARACTER = re.compile(r"&(?!lt;|gt;|amp;|quot;)\w+;")  # XML knows no others by name
PRIME, APPLY = "′", "\u2061"
FRAMES = ("math", "mtable", "mtr", "mtd")  # what a letter stands in and never is
# Letters that stand in many formulas and in no table: without this the d in it could be taken for a dilation.
OTHERS = (r"d_k",)


@functools.cache
def mathml(latex: str) -> str:
    """A LaTeX formula as MathML, which is XML as well as HTML."""
    try:
        from math_core import LatexToMathML  # noqa: PLC0415 - pages alone need it
    except ImportError:
        raise MissingExtraError("formulas in a page need math-core: pip install math-core") from None
    text = LatexToMathML().convert_with_local_state(latex, displaystyle=True)
    return NAMED_CHARACTER.sub(lambda name: html.unescape(name[0]), text)


@functools.cache
def marked_mathml(latex: str, symbols: tuple[Symbol, ...]) -> str:
    """A LaTeX formula as MathML in which each letter of `symbols` carries its name in `data-symbol`."""
    root = ElementTree.fromstring(mathml(latex))
    tokens = list(_tokens(root))
    taken: dict[Element, tuple[str, int]] = {}  # the symbol of each leaf, and which of its matches
    known = [(s.name, tuple(wanted)) for s in symbols if s.written for wanted in _letters(s.written, tokens)]
    known += [("", tuple(_written_tokens(other))) for other in OTHERS if other not in {s.written for s in symbols}]
    for name, wanted in sorted(known, key=lambda pair: -len(pair[1])):  # v′ before v
        for start in _matches(tokens, wanted):
            leaves = [token.leaf for token in tokens[start : start + len(wanted)] if token.leaf is not None]
            if not any(leaf in taken for leaf in leaves):
                taken.update(dict.fromkeys(leaves, (name, start)))
    _mark(root, taken)
    return ElementTree.tostring(root, encoding="unicode")


def gradient_symbols(symbols: Iterable[Symbol]) -> tuple[Symbol, ...]:
    """The letters of a gradient rule: those of the equation, and with a bar the loss's gradient of each."""
    letters = tuple(symbols)
    bars = [
        replace(
            each,
            name=f"{each.name}_bar",
            role="gradient",
            meaning=f"gradient of the loss with respect to {each.name}: {each.meaning}",
            written=", ".join(rf"\bar{{{part}}}" for part in each.written.split(", ")),
        )
        for each in letters
        if each.written and ", " not in each.written  # a pair of letters has no common gradient
    ]
    return (*letters, *bars)


@dataclass(frozen=True)
class _Token:
    """A sign of a formula, with the element that holds it if it is a leaf."""

    text: str
    leaf: Element | None = None


def _letters(written: str, tokens: Sequence[_Token]) -> Iterator[list[str]]:
    """The signs of a letter; of a pair such as `\\beta_1, \\beta_2` that does not stand together, those of each."""
    whole = _written_tokens(written)
    together = ", " not in written or any(True for _ in _matches(tokens, whole))
    yield from [whole] if together else (_written_tokens(part) for part in written.split(", "))


def _written_tokens(latex: str) -> list[str]:
    return [token.text for token in _tokens(ElementTree.fromstring(mathml(latex)))]


def _tokens(element: Element) -> Iterator[_Token]:
    """The signs of a formula in the order of its LaTeX: `v'_i` is v, ′, _, i."""
    match element.tag, list(element):
        case "msub" | "munder", [base, below]:
            yield from _scripts(base, (("_", below),))
        case "msup", [base, above]:
            yield from _scripts(base, (("^", above),))
        case "msubsup" | "munderover", [base, below, above]:
            scripts = (("_", below), ("^", above))
            yield from _scripts(base, scripts if above.text != PRIME else scripts[::-1])
        case "mover", [base, above]:
            yield from (_Token(f"accent {above.text}", above), *_group(base))
        case "mfrac", [over, under]:
            yield from (_Token("fraction"), *_group(over), *_group(under))
        case _, []:
            yield from [] if element.text in (None, APPLY) else [_Token(str(element.text).strip(" \u00a0:"), element)]
        case tag, children:
            yield from [_Token("root")] if tag == "msqrt" else []
            yield from (token for child in children for token in _tokens(child))


def _scripts(base: Element, scripts: Sequence[tuple[str, Element]]) -> Iterator[_Token]:
    yield from _tokens(base)
    for mark, script in scripts:
        if script.text == PRIME:
            yield _Token(PRIME, script)
        else:
            yield from (_Token(mark), *_group(script))


def _group(element: Element) -> list[_Token]:
    """The signs of a script or an accent's base, in braces if there are several."""
    inside = list(_tokens(element))
    return inside if len(inside) == 1 else [_Token("{"), *inside, _Token("}")]


def _matches(tokens: Sequence[_Token], wanted: Sequence[str]) -> Iterator[int]:
    """Where a letter stands: not under an accent and not before a prime, which make it another letter."""
    texts = [token.text for token in tokens]
    for start in range(len(texts) - len(wanted) + 1):
        end = start + len(wanted)
        accented = start > 0 and texts[start - 1].startswith("accent")
        primed = end < len(texts) and texts[end] == PRIME
        if tuple(texts[start:end]) == tuple(wanted) and not accented and not primed:
            yield start


def _mark(element: Element, taken: dict[Element, tuple[str, int]]) -> tuple[str, int] | None:
    """Mark an element whose leaves are all of one match, else the ones below it."""
    if not len(element):
        return taken.get(element)
    inside = [(child, _mark(child, taken)) for child in element if child.tag != "mspace" and child.text != APPLY]
    found = {mark for _, mark in inside}
    if len(found) == 1 and None not in found and element.tag not in FRAMES:
        return found.pop()
    for child, mark in inside:
        if mark is not None and mark[0]:
            child.set("data-symbol", mark[0])
    return None
