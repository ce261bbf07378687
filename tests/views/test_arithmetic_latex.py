"""Arithmetic as LaTeX: worked examples, and for every equation the same number as the text."""

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import glassformer.equations  # noqa: F401 - fills the catalog
from glassformer.equation import catalog
from glassformer.views.arithmetic_latex import arithmetic_latex
from glassformer.views.mathml import mathml
from tests.arithmetic import as_python
from tests.equations.drawing import Draw, draw_arguments

CELLS = [name for name, equation in catalog().items() if equation.has_cell]
NAMES = {name: getattr(math, name) for name in ("sqrt", "exp", "tanh", "sin", "cos", "pi", "inf", "e", "nan")}
NAMES |= {
    "ln": math.log,
    "min": min,
    "max": max,
    "abs": abs,
    "NaN": math.nan,
    "Phi": lambda x: (1 + math.erf(x / 2**0.5)) / 2,
}


def group(text: str, at: int) -> tuple[str, int]:
    """What stands in the braces that begin at an index, and where they end."""
    depth = 0
    for end in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if not depth:
            return text[at + 1 : end], end + 1
    raise AssertionError(text)


def python_of(latex: str) -> str:
    """LaTeX as a Python expression."""
    for before, after in {
        r"\left(": "(",
        r"\right)": ")",
        r"\cdot": "*",
        r"\times": "*",
        r"\bmod": "%",
        r"\infty": "inf",
    }.items():
        latex = latex.replace(before, after)
    latex = latex.replace(r"\pi", "pi").replace(r"\left\lfloor", "int(").replace(r"\right\rfloor", ")")
    while found := re.search(r"\\(frac|sqrt|underbrace|operatorname|mathrm)(?=\{)|\^(?=\{)", latex):
        inside, end = group(latex, found.end())
        if found[1] == "frac":
            below, end = group(latex, end)
            new = f"(({inside})/({below}))"
        elif found[1] == "underbrace":
            end = group(latex, end + 1)[1]
            new = f"({inside})"
        else:
            new = {"sqrt": f"sqrt({inside})", None: f"**({inside})"}.get(found[1], inside.replace("Φ", "Phi"))
        latex = latex[: found.start()] + new + latex[end:]
    return latex.replace("\\", "")


@pytest.mark.parametrize(
    ("text", "latex"),
    {
        "0.1·1 − 1.2·(−3) = 3.7": r"0.1 \cdot 1 - 1.2 \cdot \left(-3\right) = 3.7",
        "(1 + 2) / √(8)": r"\frac{1 + 2}{\sqrt{8}}",
        "4·tanh(1 / 4)": r"4 \cdot \tanh\left(\frac{1}{4}\right)",
        "0.5 + (−0.25 from 12 more)": r"0.5 + \underbrace{-0.25}_{\text{12 more}}",
        "1 / (1 + e^(−2))·3": r"\frac{1}{1 + e^{-2}} \cdot 3",
        "0.2 (from a_b) − 1 (from c)": r"0.2\ \text{(from a\_b)} - 1\ \text{(from c)}",
        "1.5e-7": r"1.5 \times 10^{-7}",
        "−∞": r"-\infty",
        "row 3 of E": r"\text{row 3 of E}",
        "(1": r"\text{(1}",
    }.items(),
)
def test_worked_examples(text: str, latex: str) -> None:
    assert arithmetic_latex(text) == latex


@pytest.mark.parametrize("name", CELLS)
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_the_latex_of_every_equation_gives_the_number_of_its_text(name: str, data: st.DataObject) -> None:
    equation, draw = catalog()[name], Draw(data)
    arguments = draw_arguments(equation, draw)
    result = equation(**arguments)
    first = result[0] if isinstance(result, tuple) else result
    shape = first.shape if isinstance(first, Tensor) else ()
    if 0 in shape:
        return
    text = equation.arithmetic(tuple(0 for _ in shape), equation.bind((), arguments))
    latex = arithmetic_latex(text)
    assert "<math" in mathml(latex)
    if r"\text{" not in re.sub(r"\\text\{\d+ more\}", "", latex):
        wanted, found = (eval(each, {}, NAMES) for each in (as_python(text), python_of(latex)))
        assert found == pytest.approx(wanted, rel=1e-9, nan_ok=True), (text, latex)
    else:
        with pytest.raises((SyntaxError, NameError)):
            eval(as_python(text), {}, NAMES)
