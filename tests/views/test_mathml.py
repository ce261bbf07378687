"""Formulas as MathML: every letter of a table stands in its formula as written, and carries its name there."""

from xml.etree import ElementTree

import pytest

import glassformer.equations  # noqa: F401 - importing it fills the catalog
from glassformer.entry import Symbol
from glassformer.equation import catalog
from glassformer.views.mathml import gradient_symbols, marked_mathml, mathml

# Inputs that no formula has: masks that leave out some of what it sums over, and a tensor that lends its shape alone.
ABSENT = {
    "block_attention": ["mask"], "perplexity": ["mask"], "accuracy": ["mask"], "dropout_mask": ["x"],
    "span_scores": ["mask"], "best_span": ["mask"], "window_attention": ["mask"],
}  # fmt: skip


def letters(latex: str, *written: str) -> list[tuple[str, str]]:
    """Names and texts of the marked elements of a formula with these letters, each under its LaTeX as a name."""
    symbols = tuple(Symbol(each, "input", "", "", each) for each in written)
    root = ElementTree.fromstring(marked_mathml(latex, symbols))
    return [(each.get("data-symbol"), "".join(each.itertext())) for each in root.iter() if each.get("data-symbol")]


@pytest.mark.parametrize("name", catalog())
def test_every_letter_of_a_table_is_found_in_its_formula(name: str) -> None:
    equation = catalog()[name]
    root = ElementTree.fromstring(marked_mathml(equation.latex, equation.symbols))
    marked = {each.get("data-symbol") for each in root.iter()} - {None}
    assert marked == {symbol.name for symbol in equation.symbols if symbol.written}
    missing = [symbol.name for symbol in equation.symbols if not symbol.written and symbol.role != "setting"]
    assert missing == ABSENT.get(name, []), "a letter that is computed with is not in the formula"


@pytest.mark.parametrize("name", catalog())
def test_marks_change_nothing_else(name: str) -> None:
    equation = catalog()[name]
    root = ElementTree.fromstring(marked_mathml(equation.latex, equation.symbols))
    for each in root.iter():
        each.attrib.pop("data-symbol", None)
    plain = ElementTree.fromstring(mathml(equation.latex))
    assert ElementTree.tostring(root) == ElementTree.tostring(plain)


def test_a_letter_is_not_taken_for_another() -> None:
    assert letters(r"v' = \beta v + \hat v", "v", "v'") == [("v'", "v′"), ("v", "v")]
    assert letters(r"\frac{Q K^\top}{\sqrt{d_k}} + d", "d", "k") == [("d", "d")]
    assert letters(r"d_k d", "d", "d_k") == [("d_k", "dk"), ("d", "d")]
    assert letters(r"h_{l+1} = h_l", "h_l") == [("h_l", "hl")]
    assert letters(r"\text{if } i \text{ is in } x", "i") == [("i", "i")]


def test_letters_keep_their_scripts_and_parts() -> None:
    assert letters(r"\theta'_i = \theta_i", r"\theta'", r"\theta") == [
        (r"\theta'", "θ"),
        (r"\theta'", "′"),
        (r"\theta", "θ"),
    ]
    assert letters(r"\beta_1^t + \beta_2", r"\beta_1, \beta_2") == [
        (r"\beta_1, \beta_2", "β"), (r"\beta_1, \beta_2", "1"), (r"\beta_1, \beta_2", "β2"),
    ]  # fmt: skip
    assert letters(r"\log p_i", r"\log p") == [(r"\log p", "log"), (r"\log p", "p")]
    assert letters(r"x x", "x") == [("x", "x"), ("x", "x")], "a product is not one letter"


def test_a_rule_has_gradients_as_well() -> None:
    equation = catalog()["attention_scores"]
    root = ElementTree.fromstring(marked_mathml(equation.gradient.latex, gradient_symbols(equation.symbols)))
    assert {each.get("data-symbol") for each in root.iter()} == {None, "q", "k", "q_bar", "k_bar", "s_bar"}


def test_mathml_is_xml() -> None:
    assert "\u2061" in mathml(r"\log p") and "&ApplyFunction;" not in mathml(r"\log p")
    assert "&lt;" in mathml("a < b")
