"""The errata are complete, and each is computed unless it is editorial."""

from collections.abc import Iterator

import pytest

from glassformer.course.errata import CHECKED, errata, findings
from glassformer.course.page import Grid
from glassformer.course.walk import Walk
from glassformer.course.worked.examples import examples
from tests.course.runs import run

EDITORIAL, FACTS = {18, 52, 54, 55}, {51, 56}


def test_the_errata_are_numbered_without_a_gap() -> None:
    assert [each.number for each in errata()] == list(range(1, 63))
    assert all(each.where and each.printed and each.right for each in errata())


def test_every_example_that_differs_from_print_belongs_to_an_erratum() -> None:
    told = {example for each in errata() for example in each.examples}
    known = {example.id for example in examples()}
    assert told <= known
    assert {example.id for example in examples() if example.verdict != "reproduced"} <= told


@pytest.fixture(scope="module")
def walk() -> Iterator[Walk]:
    begun = Walk()
    begun.begin("errata")
    yield begun
    begun.close()


def test_all_but_the_editorial_are_borne_out_by_computing(walk: Walk) -> None:
    found = {each.number: findings(walk, each) for each in errata()}
    assert {number for number, results in found.items() if not results} == EDITORIAL | FACTS
    assert all(result.holds and result.computed for results in found.values() for result in results)
    assert set(CHECKED) <= set(found) - EDITORIAL - FACTS


def test_the_lesson_tells_each_once_and_no_table_is_empty() -> None:
    grids = [part for page in run("errata").pages for part in page.parts if isinstance(part, Grid)]
    assert all(grid.rows for grid in grids)
    told = [row[0] for grid in grids for row in grid.rows if row[0].startswith("E")]
    for begin, numbers in (("editorial: ", EDITORIAL), ("a fact, not computed: ", FACTS)):
        marked = {row[0] for grid in grids for row in grid.rows if row[-1].startswith(begin)}
        assert marked == {f"E{number}" for number in numbers}
    assert sorted(told, key=lambda name: int(name[1:])) == [f"E{each.number}" for each in errata()]
