"""Tests that share costly fixtures are run by one process."""

from pathlib import Path

from tests.conftest import TOGETHER, group_of
from tests.house.source import ROOT


def test_every_group_names_a_file_or_a_folder() -> None:
    assert [part for part in TOGETHER if not Path(ROOT, part).exists()] == []


def test_tests_of_a_file_and_of_a_lesson_are_together_and_others_alone() -> None:
    first, second = (f"tests/training/test_kills.py::test_{number}" for number in (1, 2))
    assert group_of(first) == group_of(second) == "tests/training/test_kills.py"
    course = [f"tests/course/test_{file}.py::test_{file}[slope]" for file in ("course", "pages")]
    assert group_of(course[0]) == group_of(course[1]) != group_of(course[0].replace("slope", "descent"))
    assert group_of("tests/test_errors.py::test_a") != group_of("tests/test_errors.py::test_b")
