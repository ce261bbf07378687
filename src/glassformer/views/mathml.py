"""Formulas as MathML, for pages."""

import functools

from glassformer.errors import MissingExtraError


@functools.cache
def mathml(latex: str) -> str:
    """A LaTeX formula as MathML."""
    try:
        from math_core import LatexToMathML  # noqa: PLC0415 - pages alone need it
    except ImportError:
        raise MissingExtraError("formulas in a page need math-core: pip install math-core") from None
    return LatexToMathML().convert_with_local_state(latex, displaystyle=True)
