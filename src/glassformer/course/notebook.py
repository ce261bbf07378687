"""A lesson as a Jupyter notebook: its text as markdown, its code in cells that run."""

import ast
import inspect
import sys
from collections.abc import Iterator, Sequence

from glassformer import __version__
from glassformer.course.exercise import Exercise
from glassformer.course.html import lesson_document, page_html
from glassformer.course.page import Page, PagePart, Prose, Slope, Work
from glassformer.course.registry import CourseLesson
from glassformer.course.walk import Walk
from glassformer.errors import LessonError
from glassformer.views.bundle import frame

HEIGHT = 480  # pixels of a step in a notebook
TOLD_IN_WORDS = ("say",)  # calls whose text is in the markdown, not in the code


def lesson_notebook(lesson: CourseLesson, walk: Walk) -> dict[str, object]:
    """The notebook of a lesson that was run, as the plain data of an .ipynb file."""
    cells: list[dict[str, object]] = [_words_cell(f"# {lesson.title}\n\n{lesson.about}"), _code_cell(_opening(lesson))]
    for page, code in zip(walk.pages, _codes(lesson), strict=True):
        cells += [_words_cell(_page_words(page)), _code_cell(code)]
    cells += _exercise_cells(lesson, walk.exercises)
    for index, cell in enumerate(cells):
        cell["id"] = f"{lesson.name}-{index}"
    return {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python", "version": ".".join(map(str, sys.version_info[:2]))},
            "glassformer": {"lesson": lesson.name, "version": __version__},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


class Sheet:
    """The output of a cell: what was computed, without the text, which is above the cell."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def _repr_html_(self) -> str:
        kept: list[PagePart] = [part for part in self.page.parts if not isinstance(part, Prose)]
        inner = page_html(Page(self.page.title, parts=kept))
        return frame(lesson_document(self.page.title, inner), "step", HEIGHT)


def _opening(lesson: CourseLesson) -> str:
    """The first cell: what a lesson imports and defines beside its steps, and a new walk."""
    others = [node for node in _module_tree(lesson).body if not isinstance(node, (ast.ClassDef, ast.Expr))]
    imports = [ast.unparse(node) for node in others if isinstance(node, (ast.Import, ast.ImportFrom))]
    own = [f"\n{ast.unparse(node)}" for node in others if not isinstance(node, (ast.Import, ast.ImportFrom))]
    begin = "\nwalk = Walk(reporting=True)  # with other numbers, claims that fail are shown and the walk continues"
    return "\n".join([*imports, "from glassformer.course.notebook import Sheet", *own, begin])


def _codes(lesson: CourseLesson) -> Iterator[str]:
    """The code of each step without its text, on `walk` instead of `self`."""
    walk = next(node for node in _module_tree(lesson).body if isinstance(node, ast.ClassDef))
    for method in (node for node in walk.body if isinstance(node, ast.FunctionDef) and node.decorator_list):
        kept = [node for node in method.body[1:] if _walk_call(node) not in TOLD_IN_WORDS]  # after its docstring
        begin = f"walk.begin({ast.unparse(_decorator_title(method))})"
        yield "\n".join([begin, *(ast.unparse(_OnWalk().visit(node)) for node in kept), "Sheet(walk.page())"])


class _OnWalk(ast.NodeTransformer):
    """Replace `self`, which a notebook does not have, by `walk`."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """Replace the name."""
        return ast.copy_location(ast.Name("walk", node.ctx), node) if node.id == "self" else node


def _walk_call(node: ast.stmt) -> str:
    """The method of the walk that a statement calls, if that is all it does."""
    call = node.value if isinstance(node, ast.Expr) else None
    method = call.func if isinstance(call, ast.Call) else None
    if isinstance(method, ast.Attribute) and isinstance(method.value, ast.Name) and method.value.id == "self":
        return method.attr
    return ""


def _decorator_title(method: ast.FunctionDef) -> ast.expr:
    made = method.decorator_list[0]
    if not isinstance(made, ast.Call):
        raise LessonError(f"{method.name} is not a step of a lesson")
    return made.args[0]


def _module_tree(lesson: CourseLesson) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[lesson.walk.__module__]))


def _page_words(page: Page) -> str:
    """Title, text and formulas of a page."""
    blocks = [f"## {page.title}", page.text, f"> {page.like}" if page.like else ""]
    told: set[str] = set()
    for part in page.parts:
        if isinstance(part, Prose):
            blocks.append(part.text)
        elif isinstance(part, Work) and part.equation.name not in told:
            told.add(part.equation.name)
            blocks.append(f"**{part.equation.name}**: {part.equation.meaning}\n\n$${part.equation.latex}$$")
        elif isinstance(part, Slope):
            rules = [rule.gradient.latex for rule in part.rules if rule.gradient is not None]
            blocks += [f"Backward, for {part.name}:\n\n$${latex}$$" for latex in rules]
    return "\n\n".join(block for block in blocks if block)


def _exercise_cells(lesson: CourseLesson, exercises: Sequence[Exercise]) -> list[dict[str, object]]:
    if not exercises:
        return []
    opening = [
        "from glassformer.course.registry import lesson_called",
        "",
        f"exercises = lesson_called({lesson.name!r}).run().exercises",
    ]
    cells = [_words_cell("## Exercises\n\nType an answer between the quotes."), _code_cell("\n".join(opening))]
    for index, exercise in enumerate(exercises):
        given = "".join(f"\n\n    {line}" for line in exercise.given_lines)
        cells.append(_words_cell(f"{index + 1}. {exercise.question}{given}"))
        cells.append(_code_cell(f'exercises[{index}].judge("").text'))
    return cells


def _words_cell(text: str) -> dict[str, object]:
    return {"cell_type": "markdown", "metadata": {}, "source": text.splitlines(keepends=True)}


def _code_cell(code: str) -> dict[str, object]:
    lines = code.splitlines(keepends=True)
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": lines}
