"""One rule for showing numbers: few digits, no noise, no needless exponent, and differences that can be seen."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.arithmetic import digits_apart, factor, is_noise, minus, number, ratio
from tests.arithmetic import as_python

FINITE = st.floats(-1e12, 1e12, allow_nan=False)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456, "0.1235"),
        (-0.5, "−0.5"),
        (10000.0, "10000"),
        (9999.6, "10000"),
        (12345.678, "12346"),
        (-65536, "−65536"),
        (1e9, "1e9"),
        (1.1259e15, "1.126e15"),
        (1e-5, "1e-5"),
        (-4.5398e-5, "−4.54e-5"),
        (1e-50, "1e-50"),
        (-0.0, "0"),
        (2.776e-17, "0"),
        (-4.441e-16, "0"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (math.nan, "nan"),
    ],
)
def test_how_numbers_are_written(value: float, text: str) -> None:
    assert number(value) == text


def test_noise_depends_on_what_stands_beside_it() -> None:
    assert number(3e-12, among=1000.0) == "0" and number(3e-12) == "3e-12"
    assert number(2.7, among=1e15) == "2.7"
    assert not is_noise(0.0) and not is_noise(1e-13) and is_noise(1e-13, among=100.0)


@given(FINITE)
def test_a_written_number_is_the_number_up_to_its_digits(value: float) -> None:
    written = float(number(value).replace("−", "-"))
    assert math.isclose(written, value, rel_tol=0.5e-3, abs_tol=1e-14)
    assert "-0" not in number(value).replace("e-0", "") and "+" not in number(value)


@given(st.floats(-1e6, 1e6), st.floats(-9.0, 0.0), st.booleans())
def test_a_difference_can_be_seen(a: float, exponent: float, up: bool) -> None:
    b = a + (1 if up else -1) * 10**exponent * max(abs(a), 1e-3)
    shown = eval(as_python(minus(a, b)))
    assert math.isclose(shown, a - b, rel_tol=0.05)


def test_a_difference_is_written_as_usual_where_it_is_plain() -> None:
    assert minus(9.61, 9.0) == "9.61 − 9" and minus(0.5, -0.25) == "0.5 − (−0.25)"
    assert minus(0.08234047, 0.082340134) == "0.08234047 − 0.082340134"
    assert ratio(0.500021, 0.500011) == "0.500021 / 0.500011"
    assert digits_apart(1.0, 1.0 + 2e-16) == digits_apart(1.0, math.inf) == 4
    assert factor(-2.0) == "(−2)"
