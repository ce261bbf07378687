"""A lesson as one HTML page: formulas as MathML, numbers in color, charts as SVG."""

import html
from collections.abc import Sequence
from functools import singledispatch
from importlib import resources

from glassformer.arithmetic import number
from glassformer.course.drawing import chart_svg
from glassformer.course.exercise import Exercise
from glassformer.course.page import (
    Beside,
    BesideRow,
    Chart,
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
from glassformer.course.registry import CourseLesson, lessons
from glassformer.course.terminal import BROKEN, DIGITS_IN_LESSONS, VERDICTS
from glassformer.course.walk import Walk
from glassformer.views.html import POLICY
from glassformer.views.mathml import mathml
from glassformer.views.terminal import largest

ROWS_IN_PAGE, COLUMNS_IN_PAGE = 32, 24
LESSON_STYLE = """
main { max-width: 46rem; }
section { border-top: 1px solid var(--line); margin-top: 1.5rem; padding-top: .5rem; }
h2 { font-size: 1.15rem; }
nav { margin: 1rem 0; }
pre { overflow-x: auto; }
svg { max-width: 100%; height: auto; }
thead th { border-bottom: 1px solid var(--line); }
.part { margin: .8rem 0; overflow-x: auto; }
.part math { display: inline math; }
.like { font-style: italic; border-left: 3px solid var(--mark); padding-left: .8rem; }
.cell { font-family: ui-monospace, monospace; font-size: .9rem; margin: .2rem 0; }
.matrix td { text-align: right; padding: .1rem .5rem; font-family: ui-monospace, monospace; font-size: .9rem; }
.matrix th { padding-right: .6rem; color: var(--faint); }
.claim::before { content: "✓ "; color: #2e8b57; font-weight: 700; }
.corrected, .rounding { border-left: 3px solid var(--mark); padding-left: .8rem; }
.broken::before { content: "✗ "; color: var(--mark); font-weight: 700; }
"""


def lesson_page(lesson: CourseLesson, walk: Walk, links: bool = False) -> str:
    """The HTML page of a lesson that was run; with `links`, to the lessons before and after it."""
    pages = "".join(f"<section>{page_html(page, index)}</section>" for index, page in enumerate(walk.pages, 1))
    around = f"<nav>{_around(lesson)}</nav>" if links else ""
    body = f"<p>{html.escape(lesson.about)}</p>{around}<main>{pages}{_exercises(walk.exercises)}</main>{around}"
    return _document(lesson.title, body)


def contents_page() -> str:
    """The table of contents: every lesson in order."""
    parts, chapter = [], ""
    for lesson in lessons().values():
        if lesson.chapter != chapter:
            chapter = lesson.chapter
            parts.append(f"<h2>{html.escape(chapter)}</h2>")
        link = f'<a href="{lesson.name}.html">{html.escape(lesson.title)}</a>'
        parts.append(f"<p>{link} <span class='faint'>{html.escape(lesson.about)}</span></p>")
    return _document("Walks", "".join(parts))


def page_html(page: Page, index: int | None = None) -> str:
    """One step of a lesson, for a page or a notebook."""
    number_text = "" if index is None else f"{index}. "
    parts = [f"<h2>{number_text}{html.escape(page.title)}</h2>"]
    parts += [f"<p>{html.escape(page.text)}</p>"] if page.text else []
    parts += [f'<p class="like">{html.escape(page.like)}</p>'] if page.like else []
    return "".join([*parts, *(f'<div class="part">{_drawn_part(part)}</div>' for part in page.parts)])


def lesson_style() -> str:
    """The style sheet of lessons."""
    return resources.files("glassformer.views").joinpath("page.css").read_text(encoding="utf-8") + LESSON_STYLE


def _document(title: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="generator" content="glassformer">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><link rel="icon" href="data:,">'
        f"<title>{html.escape(title)}</title><style>{lesson_style()}</style></head>"
        f"<body><h1>{html.escape(title)}</h1>{body}</body></html>\n"
    )


def _around(lesson: CourseLesson) -> str:
    known = list(lessons().values())
    index = [other.name for other in known].index(lesson.name)
    links = ['<a href="index.html">All lessons</a>']
    links += [
        f'before: <a href="{other.name}.html">{html.escape(other.title)}</a>'
        for other in known[max(index - 1, 0) : index]
    ]
    links += [
        f'next: <a href="{other.name}.html">{html.escape(other.title)}</a>' for other in known[index + 1 : index + 2]
    ]
    return " · ".join(links)


def _exercises(exercises: Sequence[Exercise]) -> str:
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
    return f"<pre>{html.escape(chr(10).join(part.lines))}</pre>"


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
    formula = "" if part.again else mathml(part.equation.latex)
    return (
        f"<p><code>{part.equation.name}</code> {meaning}</p>{formula}<table>{given}</table>"
        f"{_matrix_html(part.output.name, part.output.value, part.rows, part.columns)}{_cell_lines(part.cells)}"
    )


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
    return f'<figure>{caption}<table class="matrix">{top}<tbody>{body}</tbody></table></figure>'


def _colored(x: float, most: float) -> str:
    text = number(x, DIGITS_IN_LESSONS, most)
    if not most or not abs(x) <= most or x == 0:
        return f"<td>{text}</td>"
    tone = "warm" if x > 0 else "cold"
    return f'<td style="background: rgb(var(--{tone}) / {0.6 * abs(x) / most:.2f})">{text}</td>'
