"""A lesson as a notebook: its words as they came out, its own code in cells that run."""

import ast
import html as markup
import inspect
import sys
from collections.abc import Iterator, Sequence

from glassformer import __version__
from glassformer.lessons.exercise import Exercise
from glassformer.lessons.html import lesson_style, page_html
from glassformer.lessons.page import Page, Prose, Slope, Work
from glassformer.lessons.registry import Lesson
from glassformer.lessons.walk import Walk

TOLD_IN_WORDS = ("say", "ask")  # what a notebook has in its words, not in its code


def lesson_notebook(lesson: Lesson, walk: Walk) -> dict[str, object]:
    """The notebook of a lesson that was walked through, as the plain data of an .ipynb file."""
    cells: list[dict[str, object]] = [_words_cell(f"# {lesson.title}\n\n{lesson.about}"), _code_cell(_opening(lesson))]
    for page, code in zip(walk.pages, _codes(lesson), strict=True):
        cells += [_words_cell(_page_words(page)), _code_cell(code)]
    cells += _exercise_cells(lesson, walk.exercises)
    for place, cell in enumerate(cells):
        cell["id"] = f"{lesson.name}-{place}"
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
    """A page of a lesson as a notebook shows it: what was computed, since the words stand above the cell."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def _repr_html_(self) -> str:
        kept = [part for part in self.page.parts if not isinstance(part, Prose)]
        inner = page_html(Page(self.page.title, parts=kept))
        whole = f"<style>{lesson_style()}</style>{inner}"
        frame = "width: 100%; height: 28rem; border: 0"
        return f'<iframe srcdoc="{markup.escape(whole, quote=True)}" title="step" style="{frame}"></iframe>'


def _opening(lesson: Lesson) -> str:
    """What a lesson imports, and a walk to begin with."""
    module = _module_tree(lesson)
    imports = [ast.unparse(node) for node in module.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    own = [ast.unparse(node) for node in module.body if _is_constant(node) or _is_helper(node, lesson)]
    first = ["from glassformer.lessons.notebook import Sheet"]
    return "\n".join([*imports, *first, *[f"\n{part}" for part in own], "\nwalk = Walk()"])


def _is_constant(node: ast.stmt) -> bool:
    return isinstance(node, (ast.Assign, ast.AnnAssign))


def _is_helper(node: ast.stmt, lesson: Lesson) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name != lesson.walk_through.__name__


def _codes(lesson: Lesson) -> Iterator[str]:
    """The code of each page: the statements from one `walk.step` to the next, less what is told in words."""
    body = _function_tree(lesson).body[1:]  # behind the docstring
    begins = [place for place, node in enumerate(body) if _walk_call(node) == "step"]
    for start, end in zip(begins, [*begins[1:], len(body)], strict=True):
        kept = [node for node in body[start + 1 : end] if _walk_call(node) not in TOLD_IN_WORDS]
        yield "\n".join([_bare_step(body[start]), *map(ast.unparse, kept), "Sheet(walk.page())"])


def _walk_call(node: ast.stmt) -> str:
    """The method of the walk that a statement calls, if that is all it does."""
    call = node.value if isinstance(node, ast.Expr) else None
    method = call.func if isinstance(call, ast.Call) else None
    if isinstance(method, ast.Attribute) and isinstance(method.value, ast.Name) and method.value.id == "walk":
        return method.attr
    return ""


def _bare_step(node: ast.stmt) -> str:
    title = next(child for child in ast.walk(node) if isinstance(child, (ast.Constant, ast.JoinedStr)))
    return f"walk.step({ast.unparse(title)})"


def _module_tree(lesson: Lesson) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[lesson.walk_through.__module__]))


def _function_tree(lesson: Lesson) -> ast.FunctionDef:
    wanted = lesson.walk_through.__name__
    found = (node for node in _module_tree(lesson).body if isinstance(node, ast.FunctionDef) and node.name == wanted)
    return next(found)


def _page_words(page: Page) -> str:
    """Title, sentences and formulas of a page."""
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


def _exercise_cells(lesson: Lesson, exercises: Sequence[Exercise]) -> list[dict[str, object]]:
    if not exercises:
        return []
    opening = [
        "from glassformer.lessons.registry import lesson_called",
        "",
        f"exercises = lesson_called({lesson.name!r}).run().exercises",
    ]
    cells = [_words_cell("## Exercises\n\nType an answer between the quotes."), _code_cell("\n".join(opening))]
    for place, exercise in enumerate(exercises):
        cells.append(_words_cell(f"{place + 1}. {exercise.question}"))
        cells.append(_code_cell(f'exercises[{place}].judge("").text'))
    return cells


def _words_cell(text: str) -> dict[str, object]:
    return {"cell_type": "markdown", "metadata": {}, "source": text.splitlines(keepends=True)}


def _code_cell(code: str) -> dict[str, object]:
    lines = code.splitlines(keepends=True)
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": lines}
