"""The engine: a lesson cannot lie."""

import pytest
import torch

from glassformer.equations.algebra import line, linear
from glassformer.equations.probability import softmax
from glassformer.errors import LessonError
from glassformer.lessons.page import Work
from glassformer.lessons.walk import Walk, step
from glassformer.recording import CHECKS, MODE


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
    assert MODE.watcher is CHECKS


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
    with pytest.raises(LessonError, match="made by no equation"):
        walk.show(torch.ones(2))
    walk.close()


def test_numbers_beside_print_must_be_the_right_ones() -> None:
    walk = begun()
    walk.beside("gd-x2-iteration-10", x=0.3 * 0 + 3 * 0.8**10)
    assert "0.27" in str(walk.pages[0].parts[-1]) and "corrected" in str(walk.pages[0].parts[-1])
    with pytest.raises(LessonError, match=r"x is 0\.27, wanted 0\.3221"):
        walk.beside("gd-x2-iteration-10", x=0.27)
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
    assert MODE.watcher is CHECKS
