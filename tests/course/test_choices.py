"""A setting with several values: what each gives is computed, the page shows one at a time, a terminal the first."""

import torch

from glassformer.course.data import lesson_data
from glassformer.course.html import page_html
from glassformer.course.page import Choice, Work
from glassformer.course.terminal import page_view
from glassformer.course.walk import Walk
from glassformer.equations.algebra import multiply
from glassformer.views.terminal import render
from tests.course.runs import lesson, run


def chosen() -> Walk:
    walk = Walk()
    walk.begin("A step")
    walk.say("before")
    walk.choose("factor", (2.0, 3.0), lambda factor: walk.show(multiply(torch.tensor(5.0), torch.tensor(factor))), 1)
    walk.close()
    return walk


def test_every_value_is_computed_by_the_equations_and_the_page_goes_on() -> None:
    _, choice = chosen().pages[0].parts
    assert isinstance(choice, Choice) and choice.values == ("2", "3")
    works = [part for (part,) in choice.parts]
    assert [float(work.output.value) for work in works if isinstance(work, Work)] == [10.0, 15.0]


def test_a_page_shows_one_value_at_a_time_and_a_terminal_names_the_others() -> None:
    (page,) = chosen().pages
    drawn = page_html(page)
    assert drawn.count('class="frame"') == 2 and drawn.count('class="frame" hidden') == 1 and 'value="1"' in drawn
    text = render(page_view(page, 1, 1), 100, False)
    assert "factor: 3 (the page of this lesson also has 2)" in text and "= 15" in text and "= 10" not in text


def test_the_data_of_a_lesson_has_all_values() -> None:
    data = lesson_data(lesson("descent"), run("descent"))
    (choice,) = [part for step in data["steps"] for part in step["parts"] if part["kind"] == "choice"]
    assert len(choice["parts"]) == len(choice["values"]) == 9
