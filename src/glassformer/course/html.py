"""The steps of a lesson as HTML: formulas as MathML, numbers in color, charts as SVG."""

import base64
import html
import math
from collections.abc import Sequence
from functools import singledispatch

import msgspec
import numpy as np

from glassformer.arithmetic import number
from glassformer.course.blueprint import blueprint_svg
from glassformer.course.drawing import chart_svg
from glassformer.course.exercise import Exercise
from glassformer.course.page import (
    BROKEN,
    DIGITS_IN_LESSONS,
    VERDICTS,
    Beside,
    BesideRow,
    Chart,
    Choice,
    Claim,
    Drawing,
    Grid,
    Page,
    PagePart,
    Prose,
    Slope,
    Work,
    as_matrix,
    operand_texts,
    part_text,
    value_text,
)
from glassformer.equation import Equation
from glassformer.views.bundle import document
from glassformer.views.mathml import marked_mathml, mathml
from glassformer.views.terminal import largest

ROWS_IN_PAGE, COLUMNS_IN_PAGE = 32, 24
LARGE_MATRIX = 65  # numbers; from here on a matrix is drawn, and a table where scripts are off
SHADES = 7  # of a color in a table; the largest number has the strongest


def lesson_document(title: str, body: str) -> str:
    """A page of the course with this body, which needs no other file and fetches nothing."""
    return document(title, body, "lesson.js", {}, "lesson")


def page_html(page: Page, index: int | None = None) -> str:
    """One step of a lesson, for a page or a notebook."""
    number_text = "" if index is None else f"{index}. "
    parts = [f"<h2>{number_text}{html.escape(page.title)}</h2>"]
    parts += [f"<p>{html.escape(page.text)}</p>"] if page.text else []
    parts += [f'<p class="like">{html.escape(page.like)}</p>'] if page.like else []
    return "".join([*parts, _parts_html(page.parts)])


def _parts_html(parts: Sequence[PagePart]) -> str:
    return "".join(f'<div class="part">{_drawn_part(part)}</div>' for part in parts)


def exercises_html(exercises: Sequence[Exercise]) -> str:
    """The exercises of a lesson, with hints and answers to open."""
    asked = [
        f"<p>{index}. {html.escape(each.question)}</p>"
        f"{_cell_lines(each.given_lines)}"
        f"<details><summary>Hint</summary><p>{html.escape(each.hint)}</p></details>"
        f'<details><summary>Answer</summary><p class="cell">{html.escape(each.solution)}</p></details>'
        for index, each in enumerate(exercises, 1)
    ]
    return f"<section><h2>Exercises</h2>{''.join(asked)}</section>" if asked else ""


def _cell_lines(lines: Sequence[str]) -> str:
    return "".join(f'<p class="cell">{html.escape(line)}</p>' for line in lines)


@singledispatch
def _drawn_part(part: PagePart) -> str:
    raise TypeError(f"nothing draws a {type(part).__name__}")


@_drawn_part.register
def _prose_html(part: Prose) -> str:
    return f"<p>{html.escape(part.text)}</p>"


@_drawn_part.register
def _claim_html(part: Claim) -> str:
    if part.holds:
        return f'<p class="claim">{html.escape(part.text)}</p>'
    return f'<p class="broken">{BROKEN}: {html.escape(part.text)}</p>'


@_drawn_part.register
def _drawing_html(part: Drawing) -> str:
    return f"<pre>{html.escape(chr(10).join(part.lines))}</pre>" if part.plan is None else blueprint_svg(part.plan)


@_drawn_part.register
def _choice_html(part: Choice) -> str:
    frames = "".join(
        f'<div class="frame"{"" if index == part.start else " hidden"}>{_parts_html(parts)}</div>'
        for index, parts in enumerate(part.parts)
    )
    control = f'<input type="range" min="0" max="{len(part.values) - 1}" step="1" value="{part.start}">'
    now = html.escape(part.values[part.start])
    label = f"<label>{html.escape(part.setting)} {control} <output>{now}</output></label>"
    return f'<div class="choice" data-values="{_attribute(part.values)}">{label}{frames}</div>'


@_drawn_part.register
def _chart_html(part: Chart) -> str:
    return chart_svg(part)


@_drawn_part.register
def _grid_html(part: Grid) -> str:
    return _table_html(part.columns, part.rows)


@_drawn_part.register
def _work_html(part: Work) -> str:
    given = "".join(
        f"<tr><th>{html.escape(operand.name)}</th><td>{html.escape(text)}</td>"
        f'<td class="faint">{"" if part.again else html.escape(operand.meaning)}</td></tr>'
        for operand, text in zip(part.inputs, operand_texts(part.inputs), strict=True)
    )
    meaning = "again" if part.again else html.escape(part.equation.meaning)
    formula = "" if part.again else _formula_html(part.equation)
    return (
        f"<p><code>{part.equation.name}</code> {meaning}</p>{formula}<table>{given}</table>"
        f"{_matrix_html(part.output.name, part.output.value, part.rows, part.columns)}{_cell_lines(part.cells)}"
    )


def _formula_html(equation: Equation[..., object]) -> str:
    symbols = [{"name": each.name, "written": each.written, "meaning": each.meaning} for each in equation.symbols]
    return f'<div data-symbols="{_attribute(symbols)}">{marked_mathml(equation.latex, equation.symbols)}</div>'


def _attribute(value: object) -> str:
    """Plain data as the value of an attribute."""
    return html.escape(msgspec.json.encode(value).decode(), quote=True)


@_drawn_part.register
def _slope_html(part: Slope) -> str:
    rules = "".join(
        f"<p><code>{rule.name}</code>, backward</p>{mathml(rule.gradient.latex)}"
        for rule in part.rules
        if rule.gradient
    )
    return rules + _matrix_html(part.name, part.value, part.rows, part.columns)


@_drawn_part.register
def _beside_html(part: Beside) -> str:
    note = f"<p>{html.escape(part.how)}</p>" if part.how and part.standing in ("rounding", "corrected") else ""
    columns = ("value", "right", "in print")[: 2 if part.standing is None else 3]
    rows = [(html.escape(row.name), html.escape(row.right), _printed_html(row))[: len(columns)] for row in part.rows]
    title = f"<p>{VERDICTS[part.standing]}: <span>{html.escape(part.where)}</span></p>"
    kind = part.standing or "computed"
    return f'<div class="{kind}">{title}{_table_of(columns, rows)}{note}</div>'


def _printed_html(row: BesideRow) -> str:
    """The numbers in print, each wrong one struck out."""
    texts = [f"<s>{html.escape(each.text)}</s>" if each.wrong else html.escape(each.text) for each in row.printed]
    joined = ", ".join(texts)
    return f"[{joined}]" if row.listed else joined


def _table_html(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return _table_of(columns, [[html.escape(cell) for cell in row] for row in rows])


def _table_of(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _matrix_html(name: str, value: object, rows: Sequence[str], columns: Sequence[str]) -> str:
    matrix = as_matrix(value)
    if matrix is None:
        return f'<p class="cell">{html.escape(name)} = {html.escape(value_text(value))}</p>'
    shown = [row[:COLUMNS_IN_PAGE] for row in matrix[:ROWS_IN_PAGE]]
    most = largest(shown)
    head = "".join(f"<th>{html.escape(column)}</th>" for column in (["", *columns] if rows else columns))
    body = ""
    for index, row in enumerate(shown):
        label = f"<th>{html.escape(rows[index])}</th>" if index < len(rows) else ""
        body += f"<tr>{label}{''.join(_colored(x, most) for x in row)}</tr>"
    caption = f"<figcaption>{html.escape(name + part_text(shown, matrix))}</figcaption>"
    top = f"<thead><tr>{head}</tr></thead>" if columns else ""
    table = f"{caption}<table>{top}<tbody>{body}</tbody></table>"
    return f'<figure class="numbers"{_matrix_attribute(name, matrix, rows, columns)}>{table}</figure>'


def _matrix_attribute(name: str, matrix: list[list[float]], rows: Sequence[str], columns: Sequence[str]) -> str:
    """All numbers of a large matrix, for the element that draws it in place of the table."""
    if len(matrix) * len(matrix[0]) < LARGE_MATRIX:
        return ""
    values = base64.b64encode(np.asarray(matrix, dtype="<f4").tobytes()).decode()
    found = {"title": name, "shape": [len(matrix), len(matrix[0])], "values": values, "rows": rows, "columns": columns}
    return f' data-matrix="{_attribute(found)}"'


def _colored(x: float, most: float) -> str:
    text = number(x, DIGITS_IN_LESSONS, most)
    if not most or not abs(x) <= most or x == 0:
        return f"<td>{text}</td>"
    tone = "warm" if x > 0 else "cold"
    return f'<td class="{tone} shade-{math.ceil(SHADES * abs(x) / most)}">{text}</td>'
