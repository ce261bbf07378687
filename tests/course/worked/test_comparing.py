"""When two numbers are the same, and how a number in print stands to the right one."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from glassformer.course.worked.comparing import STANDINGS, Standing, as_data, below, compare, entries_beside, near, same


@pytest.mark.parametrize(
    ("computed", "right"),
    [
        (0.1 + 0.2, 0.3),
        (4, 4.0),
        ([[1.0, 1e-17], [0.5, 0.5]], [[1.0, 0.0], [0.5, 0.5]]),
        ([1e-16, -1e-16], [0.0, 0.0]),
        (2.220446049250313e-16, 1.1102230246251565e-16),
        (0.0, 1.1102230246251565e-16),
        ([3e-16, -0.0], [0.0, -2e-17]),
        (1.0000000001e-50, 1e-50),
        (["I", "love"], ["I", "love"]),
        (False, False),
    ],
)
def test_the_same_up_to_rounding(computed: object, right: object) -> None:
    assert same(computed, right)


@pytest.mark.parametrize(
    ("computed", "right"),
    [
        (0.30000001, 0.3),
        (1.1e-50, 1e-50),
        (0.0, 1e-50),
        (1e-11, 1.1102230246251565e-16),
        ([1.0, 2.0], [1.0, 2.0, 3.0]),
        ([[1.0], [2.0]], [1.0, 2.0]),
        (True, 1),
        (1.0, True),
        (float("nan"), 0.0),
        ("no", False),
        (None, 0.0),
        ([1e-9, 1.0], [0.0, 1.0]),
    ],
)
def test_not_the_same(computed: object, right: object) -> None:
    assert not same(computed, right)


@pytest.mark.parametrize(
    ("printed", "computed", "decimals", "standing"),
    [
        (3.69, 3.6864, 2, "reproduced"),
        (2.3, 2.29995, 4, "reproduced"),
        (0.97, 0.9785, 2, "rounding"),
        (0.359, 0.35954, 3, "rounding"),
        (0.27, 0.3221, 2, "corrected"),
        (-1.03927142, -1.03927194, 8, "corrected"),
        (1.5, 1.5576, None, "reproduced"),
        (175, 96, None, "corrected"),
        (True, False, None, "corrected"),
        ("position", "position", None, "reproduced"),
        ([1, 2], [1, 2, 3], 0, "corrected"),
        (1.0, None, 0, "corrected"),
        (1.0, float("nan"), 0, "corrected"),
    ],
)
def test_how_print_stands(printed: object, computed: object, decimals: int | None, standing: Standing) -> None:
    assert compare("x", printed, computed, decimals).standing == standing


def test_the_entry_that_is_farthest_tells() -> None:
    entry = compare("PE", [[0.0, 1.0], [0.8, 0.9]], [[0.0, 1.0], [0.81, 0.5]], 1)
    assert (entry.name, entry.printed, entry.value) == ("PE[1][1]", 0.9, 0.5)
    assert entry.standing == STANDINGS[-1]


def test_every_entry_stands_by_itself() -> None:
    entries = entries_beside("PE", [[0.0, 1.0], [0.8, 0.9]], [[0.0, 1.0], [0.81, 0.5]], 1)
    assert [entry.standing for entry in entries] == ["reproduced"] * 3 + ["corrected"]


@given(st.floats(-9e-15, 9e-15), st.floats(-9e-15, 9e-15))
def test_noise_is_the_same_as_any_other_noise(computed: float, right: float) -> None:
    assume(right == 0 or abs(right) > 1e-19)
    assert same(computed, right)
    assert same([computed, 1.0], [right, 1.0])


def test_rules_for_what_has_no_digits() -> None:
    assert near([0.39, 0.84], [0.38, 0.85], {})
    assert not near([0.39, 0.64], [0.38, 0.85], {})
    assert below("line")(0.2, 0.3, {"line": 0.46})
    assert not below("line")(0.5, 0.3, {"line": 0.46})


def test_tensors_become_numbers() -> None:
    nested = {"a": [torch.tensor(1.5, dtype=torch.float64), (torch.tensor([True, False]),)], "b": "word"}
    assert as_data(nested) == {"a": [1.5, [[True, False]]], "b": "word"}
