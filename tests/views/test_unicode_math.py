"""Formulas in the terminal: every formula of the catalog becomes plain Unicode."""

import re
import unicodedata

import pytest

import glassformer as gf
from glassformer.course.worked.examples import examples
from glassformer.views.unicode_math import ACCENTS, FUNCTIONS, LATEX_TOKEN, PLAIN_TEXT, SYMBOLS, unicode_math

EQUATIONS = gf.catalog().values()
FORMULAS = [equation.latex for equation in EQUATIONS]
FORMULAS += [equation.gradient.latex for equation in EQUATIONS if equation.gradient is not None]
FORMULAS += [example.equation for example in examples()]


def test_every_formula_of_the_catalog_is_plain_text() -> None:
    assert len(FORMULAS) > 200
    for latex in FORMULAS:
        text = unicode_math(latex)
        assert "\\" not in text and "&" not in text and "\n" not in text, latex
        for brace in "{}":  # those of a set stay
            assert text.count(brace) == latex.count(f"\\{brace}"), latex
        for opening, closing in ("()", "[]", "⟨⟩", "⌊⌋"):
            assert text.count(opening) == text.count(closing), latex
        assert text == text.strip() and "   " not in text and not re.search(r"[(\[] | [)\],]", text), latex


def test_every_command_is_known() -> None:
    used = {token[1:] for latex in FORMULAS for token in LATEX_TOKEN.findall(latex) if token.startswith("\\")}
    handled = {"frac", "tfrac", "sqrt", "begin", "end", "mathbb", "\\"}
    assert used - handled - {*SYMBOLS, *FUNCTIONS, *PLAIN_TEXT, *ACCENTS} == set()


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"p_i = \frac{e^{z_i - \max z}}{\sum_j e^{z_j - \max z}}", "pᵢ = e^(zᵢ − max z) / Σⱼ e^(zⱼ − max z)"),
        (r"S = \frac{Q K^\top}{\sqrt{d_k}}", "S = Q Kᵀ / √dₖ"),
        (r"\bar z = \bar a \odot a (1 - a)", "z̄ = ā ⊙ a (1 − a)"),
        (r"\bar x = \frac{\bar y \odot m}{1 - r}", "x̄ = ȳ ⊙ m / (1 − r)"),
        (r"\frac{1}{s}\left(g - h\right)", "1/s (g − h)"),
        (r"\frac{a + b}{2 c} d", "((a + b) / (2 c)) d"),
        (r"\log \frac{p_i}{q_i}", "log(pᵢ/qᵢ)"),
        (r"\frac{\partial p_i}{\partial z_j}", "∂pᵢ/∂zⱼ"),
        (r"\begin{cases} 0 & j \le p_i \\ -\infty & \text{otherwise} \end{cases}", "(0 where j ≤ pᵢ; −∞ otherwise)"),
        (r"\begin{pmatrix} a & -b \\ b & a \end{pmatrix}", "(a, −b; b, a)"),
        (r"x_{h,s,:} + y^{(t)} + d_\text{ff}", "x_(h,s,:) + y⁽ᵗ⁾ + d_ff"),
        (r"b^{-2i/d}, \quad k^{-1}", "b^(−2i/d),  k⁻¹"),
        (r"\lVert g \rVert = \sqrt{\sum_i g_i^2}", "‖g‖ = √(Σᵢ gᵢ²)"),
        (r"x-\mu", "x − μ"),
        (r"\unheard{x}", "unheardx"),
    ],
)
def test_how_formulas_read(latex: str, text: str) -> None:
    assert unicode_math(latex) == unicodedata.normalize("NFC", text)
