"""The engine: a lesson cannot lie."""

import re

import pytest
import torch

from glassformer.course.html import page_html
from glassformer.course.page import Beside, Claim, Work
from glassformer.course.walk import Walk, step
from glassformer.equation import CHECKS, MODE
from glassformer.equations.algebra import linear, multiply
from glassformer.equations.embedding import embed
from glassformer.equations.gradients import line
from glassformer.equations.similarity import inner_product
from glassformer.equations.softmax import softmax
from glassformer.errors import LessonError
from tests.course.runs import page_text


class Small(Walk):
    """A lesson of two steps."""

    @step("First", like="A thing.")
    def first(self) -> None:
        """Some words
        over two lines."""
        self.x = self.tensor([1.0, 2.0])
        self.y = softmax(self.x)
        self.show(self.y, (0,))

    @step("Second", like="Another thing.")
    def second(self) -> None:
        """More words."""
        self.show_gradient(self.back(self.y, torch.tensor([1.0, 0.0], dtype=torch.float64)), self.x, "slope")

    def quiz(self) -> None:
        self.ask("What?", lambda: line(self.tensor(2.0), 3.0), "Multiply.")


def begun() -> Walk:
    walk = Walk()
    walk.begin("A step")
    return walk


def test_steps_come_in_the_order_they_are_written() -> None:
    walk = Small()
    walk.run()
    assert [(page.title, page.text, page.like) for page in walk.pages] == [
        ("First", "Some words over two lines.", "A thing."),
        ("Second", "More words.", "Another thing."),
    ]
    assert MODE.dispatcher is CHECKS


def test_a_shown_value_comes_with_its_equation_and_its_arithmetic() -> None:
    walk = Small()
    walk.run()
    work = walk.pages[0].parts[0]
    assert isinstance(work, Work) and work.equation is softmax
    assert work.cells == (softmax.cell((0,), torch.tensor([1.0, 2.0], dtype=torch.float64)),)


def test_a_false_claim_ends_the_lesson() -> None:
    walk = begun()
    walk.claim("one is one", True)
    walk.same("these are the same", torch.ones(2), 1.0)
    walk.less("one is less", 1.0, torch.tensor(2.0))
    walk.differ("these differ", 1.0, 2.0, by=0.5)
    with pytest.raises(LessonError, match="A step: it does not hold that one is two"):
        walk.claim("one is two", False)
    with pytest.raises(LessonError, match="the same"):
        walk.same("they are the same", torch.tensor([1.0, 1.1]), 1.0)
    with pytest.raises(LessonError, match="not"):
        walk.same("a number that is none is not any", torch.tensor(torch.nan), 1.0)
    with pytest.raises(LessonError, match="differ"):
        walk.differ("they differ", 1.0, 1.2, by=0.5)
    with pytest.raises(LessonError, match="less"):
        walk.less("two is less", 2.0, 1.0)
    walk.close()


def test_what_no_equation_made_cannot_be_shown() -> None:
    walk = begun()
    with pytest.raises(LessonError, match="not made by an equation"):
        walk.show(torch.ones(2))
    walk.close()


def test_numbers_beside_print_must_be_the_right_ones() -> None:
    walk = begun()
    walk.beside("gd-x2-iteration-10", x=0.3 * 0 + 3 * 0.8**10)
    assert "0.27" in str(walk.pages[0].parts[-1]) and "corrected" in str(walk.pages[0].parts[-1])
    with pytest.raises(LessonError, match=r"x is 0\.3221; it is 0\.27"):
        walk.beside("gd-x2-iteration-10", x=0.27)
    walk.close()


def beside(walk: Walk) -> Beside:
    part = walk.pages[-1].parts[-1]
    assert isinstance(part, Beside)
    return part


def test_beside_print_there_are_as_many_digits_as_print_has() -> None:
    walk = begun()
    walk.beside("layernorm-M", LN=walk.worked("layernorm-M").tensor("LN"))
    row = beside(walk).rows[0]
    assert row.right == "[−1.03927194, 0.13949675, 1.56694907, −0.66717388]"
    assert row.printed[0].text == "−1.03927142" and row.printed[0].wrong
    walk.beside("gd-x2-iteration-10", x=3 * 0.8**10, f=9 * 0.8**20)
    assert [(row.right, row.printed[0].text) for row in beside(walk).rows] == [("0.32", "0.27"), ("0.10", "0.07")]
    walk.close()


@pytest.mark.parametrize(
    ("example", "key", "row", "wrong"),
    [
        ("positional-encoding-d4", "PE", 0, []),
        ("positional-encoding-d4", "PE", 1, [1, 2]),
        ("x-plus-pe-corrected", "sum", 0, []),
        ("y-plus-pe-corrected", "sum", 0, []),
        ("x-plus-pe-corrected", "sum", 1, [1, 2]),
        ("x-plus-pe-corrected", "sum", 2, [1, 2, 3]),
    ],
)
def test_right_numbers_are_never_struck_out(example: str, key: str, row: int, wrong: list[int]) -> None:
    walk = begun()
    walk.beside(example, **{key: walk.worked(example).tensor(key)})
    part = beside(walk)
    assert part.standing == "corrected"
    assert [index for index, each in enumerate(part.rows[row].printed) if each.wrong] == wrong
    drawn = page_html(walk.pages[-1])
    assert drawn.count("<s>") == sum(each.wrong for one in part.rows for each in one.printed) > 0
    walk.close()


def test_readers_see_the_source_and_not_the_name_of_the_example() -> None:
    walk = begun()
    walk.beside("residual-gradient-path", plain=1e-50)
    for text in (page_text(walk.pages[-1]), page_html(walk.pages[-1])):
        assert "residual-gradient-path" not in text and "From First Principles" in text and "2.1.3" in text
    walk.close()


def test_a_walk_that_reports_goes_on_where_something_does_not_hold() -> None:
    walk = Walk(reporting=True)
    walk.begin("A step")
    walk.claim("one is two", False)
    walk.beside("gd-x2-iteration-10", x=0.27)
    walk.claim("one is one", True)
    assert [part.holds for part in walk.pages[0].parts if isinstance(part, Claim)] == [False, False, True]
    text = page_text(walk.pages[0])
    assert "does not hold with your numbers: one is two" in text and "x is 0.3221; it is 0.27" in text
    assert 'class="broken"' in page_html(walk.pages[0])
    walk.close()


def test_a_gradient_is_checked_where_it_is_largest() -> None:
    walk = begun()
    x = walk.tensor([[0.0, 2.0], [-3.0, 1.0]])
    found = multiply(x, x)
    gradient = walk.back(found, torch.ones_like(x))[x]
    measured = walk.check_gradient("x", lambda at: inner_product(at.flatten(), at.flatten()), x, gradient)
    work, claim = walk.pages[0].parts
    assert isinstance(work, Work) and isinstance(claim, Claim)
    assert "at x[1, 0]" in claim.text and "−6" in claim.text and float(measured) == pytest.approx(-6, abs=1e-3)
    ahead, here = re.findall(r"\d+\.?\d*", work.cells[0])[:2]
    assert ahead != here and f"f_ahead = {ahead}" in page_text(walk.pages[0])
    with pytest.raises(LessonError, match="the largest gradient"):
        walk.check_gradient("x", lambda at: inner_product(at.flatten(), at.flatten()), x, 2 * gradient)
    walk.close()


def test_a_large_table_says_which_part_of_it_is_shown() -> None:
    walk = begun()
    large = walk.tensor([[float(i + j) for j in range(30)] for i in range(40)])
    walk.show(multiply(large, large))
    walk.close()
    assert "y, the first 12 of 40 rows and 10 of 30 columns =" in page_text(walk.pages[0])
    assert "y, the first 32 of 40 rows and 24 of 30 columns<" in page_html(walk.pages[0])


def test_rows_of_several_axes_are_labeled_by_index() -> None:
    walk = begun()
    labels = walk.index_labels(head=2, query=2)
    assert labels == ["head 0, query 0", "head 0, query 1", "head 1, query 0", "head 1, query 1"]
    x = walk.tensor([[[1.0], [2.0]], [[3.0], [4.0]]])
    walk.show(multiply(x, x), rows=labels)
    walk.close()
    assert [line.split() for line in page_text(walk.pages[0]).splitlines() if "head 1" in line] == [
        ["head", "1,", "query", "0", "9"],
        ["head", "1,", "query", "1", "16"],
    ]
    assert "the first" not in page_text(walk.pages[0])


def test_a_number_that_was_only_read_has_no_working() -> None:
    walk = begun()
    walk.show(embed(walk.tensor([[1.0], [21.0]]), torch.tensor([1])), (0, 0))
    work = walk.pages[0].parts[0]
    assert isinstance(work, Work) and work.cells == ()
    walk.ask("Which?", lambda: embed(walk.tensor([[1.0], [21.0]]), torch.tensor([1])), "Look.", cell=(0, 0))
    exercise = walk.exercises[0]
    assert (exercise.working, exercise.solution, exercise.judge("21").text) == ("", "21", "Right.")
    walk.close()


def test_a_question_carries_the_tables_it_asks_about() -> None:
    walk = begun()
    table = walk.tensor([[0.25, 0.5], [0.75, 1.5]])
    weights = walk.tensor([[2.0], [4.0]])
    walk.ask("What is the first sum?", lambda: linear(table[:1], weights), "Add.", cell=(0, 0))
    walk.ask("What is twice that?", lambda: linear(table + table, weights), "Add.", cell=(0, 0))
    walk.ask("What is 3 times 5?", lambda: multiply(walk.tensor(3.0), walk.tensor(5.0)), "Multiply.")
    assert walk.exercises[0].given_lines == [
        "x = [[0.25, 0.5]]    input vectors",
        "W = [[2], [4]]    weights, one column per output",
    ]
    assert [operand.name for operand in walk.exercises[1].given] == ["W"]  # the sum of tables is part of the answer
    assert walk.exercises[2].given == ()
    walk.close()


def test_a_hint_must_not_hold_the_answer() -> None:
    walk = begun()
    with pytest.raises(LessonError, match="holds the answer"):
        walk.ask("What?", lambda: line(walk.tensor(2.5), 3.0), "Close to 7.5, is it not?")
    walk.ask("What?", lambda: line(walk.tensor(2.5), 3.0), "Multiply by 3.")
    walk.close()


def test_an_answer_must_come_out_of_an_equation() -> None:
    walk = begun()
    with pytest.raises(LessonError, match="out of an equation"):
        walk.ask("What?", lambda: 3.0, "None.")
    walk.ask("What shape?", lambda: tuple(linear(torch.ones(3, 2), torch.ones(2, 4)).shape), "Rows and columns.")
    assert [walk.exercises[0].judge(typed).right for typed in ("3x4", "[3, 4]", "3 4", "3×4", "4x3", "12")] == [
        *[True] * 4,
        *[False] * 2,
    ]
    walk.ask("How much?", lambda: line(walk.tensor(0.25), 1.0), "Look.")
    typed = ("0.25", "1/4", "2.5e-1", " .25 ", "0.254", "0.26", "−0.25", "1/0", "nan")
    assert [walk.exercises[1].judge(answer).right for answer in typed] == [*[True] * 5, *[False] * 4]
    assert walk.exercises[1].judge("1/4").text == "Right: 1·0.25 + 0 = 0.25"
    walk.close()


def test_a_lesson_that_breaks_off_stops_recording() -> None:
    class Broken(Walk):
        """One that fails."""

        @step("It", like="It.")
        def it(self) -> None:
            """It."""
            raise RuntimeError

    with pytest.raises(RuntimeError):
        Broken().run()
    assert MODE.dispatcher is CHECKS
