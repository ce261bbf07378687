"""A step of a lesson in the terminal."""

from functools import singledispatch

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from glassformer.lessons.drawing import chart_lines
from glassformer.lessons.page import (
    Beside,
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
    value_text,
)
from glassformer.views.terminal import matrix_table

DIGITS_IN_LESSONS = 4
ROWS_IN_LESSONS, COLUMNS_IN_LESSONS = 12, 10
VERDICTS = {
    None: "not in print, checked against the worked example",
    "reproduced": "the same as in print",
    "rounding": "badly rounded in print",
    "corrected": "wrong in print",
}


def page_view(page: Page, place: int, count: int) -> Group:
    """One step of a lesson, whole."""
    head: list[RenderableType] = [Text(f"{place}/{count}  {page.title}", style="bold"), Text()]
    head += [Text(page.text)] if page.text else []
    head += [Text(f"Like this: {page.like}", style="italic")] if page.like else []
    body = [Padding(_view(part), (1, 0, 0, 0 if isinstance(part, Prose) else 2)) for part in page.parts]
    return Group(*head, *body)


@singledispatch
def _view(part: PagePart) -> RenderableType:
    raise TypeError(f"nothing shows a {type(part).__name__}")


@_view.register
def _prose_view(part: Prose) -> RenderableType:
    return Text(part.text)


@_view.register
def _claim_view(part: Claim) -> RenderableType:
    return Text(f"✓ {part.text}", style="green")


@_view.register
def _drawing_view(part: Drawing) -> RenderableType:
    return Text("\n".join(part.lines), no_wrap=True)


@_view.register
def _chart_view(part: Chart) -> RenderableType:
    return Text("\n".join(chart_lines(part)), no_wrap=True)


@_view.register
def _grid_view(part: Grid) -> RenderableType:
    return _table(part.columns, part.rows)


@_view.register
def _work_view(part: Work) -> RenderableType:
    if part.again:
        given = ", ".join(f"{operand.name} = {value_text(operand.value)}" for operand in part.inputs)
        lines: list[RenderableType] = [Text(f"{part.equation.name} again: {given}")]
    else:
        lines = [Text(f"{part.equation.name}: {part.equation.meaning}", style="bold")]
        lines.append(Text(part.equation.latex, style="italic"))
        lines += [Text(f"{each.name} = {value_text(each.value)}    {each.meaning}") for each in part.inputs]
    lines += _number_lines(part.output.name, part.output.value, part.rows, part.columns)
    return Group(*lines, *(Text(cell, style="cyan") for cell in part.cells))


@_view.register
def _slope_view(part: Slope) -> RenderableType:
    rules = [rule for rule in part.rules if rule.gradient is not None]
    lines = [Text(f"{rule.name}, backward: {rule.gradient.latex}", style="italic") for rule in rules if rule.gradient]
    return Group(*lines, *_number_lines(part.name, part.value, part.rows, part.columns))


@_view.register
def _beside_view(part: Beside) -> RenderableType:
    title = Text(f"{part.example}: {VERDICTS[part.standing]} ({part.where})", style="bold")
    note = [Text(part.how)] if part.how and part.standing in ("rounding", "corrected") else []
    return Group(title, _table(*beside_table(part)), *note)


def beside_table(part: Beside) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Columns and rows of our numbers beside those in print, if there are any."""
    if part.standing is None:
        return ("value", "right"), tuple(row[:2] for row in part.rows)
    return ("value", "right", "in print"), part.rows


def _number_lines(name: str, value: object, rows: tuple[str, ...], columns: tuple[str, ...]) -> list[RenderableType]:
    matrix = as_matrix(value)
    if matrix is None:
        return [Text(f"{name} = {value_text(value)}")]
    shown = [row[:COLUMNS_IN_LESSONS] for row in matrix[:ROWS_IN_LESSONS]]
    table = matrix_table(shown, rows, columns, digits=DIGITS_IN_LESSONS)
    left = sum(map(len, matrix)) - sum(map(len, shown))
    more = [Text(f"and {left:,} more numbers")] if left else []
    return [Text(f"{name} ="), table, *more]


def _table(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
