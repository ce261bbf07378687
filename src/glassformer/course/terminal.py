"""A step of a lesson in the terminal."""

from functools import singledispatch

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from glassformer.course.drawing import chart_lines
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
from glassformer.views.tables import FittingTable
from glassformer.views.terminal import matrix_table
from glassformer.views.unicode_math import unicode_math

ROWS_IN_LESSONS, COLUMNS_IN_LESSONS = 12, 10
WRONG = "✗"  # after a wrong printed number


def page_view(page: Page, index: int, count: int) -> Group:
    """One step of a lesson."""
    head: list[RenderableType] = [Text(f"{index}/{count}  {page.title}", style="bold"), Text()]
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
    return Text(f"✓ {part.text}", style="green") if part.holds else Text(f"✗ {BROKEN}: {part.text}", style="red")


@_view.register
def _drawing_view(part: Drawing) -> RenderableType:
    return Text("\n".join(part.lines), no_wrap=True)


@_view.register
def _choice_view(part: Choice) -> RenderableType:
    others = ", ".join(value for index, value in enumerate(part.values) if index != part.start)
    title = f"{part.setting}: {part.values[part.start]} (the page of this lesson also has {others})"
    return Group(Text(title, style="bold"), *(Padding(_view(each), (1, 0, 0, 0)) for each in part.parts[part.start]))


@_view.register
def _chart_view(part: Chart) -> RenderableType:
    return Text("\n".join(chart_lines(part)))


@_view.register
def _grid_view(part: Grid) -> RenderableType:
    return FittingTable(part.columns, part.rows)


@_view.register
def _work_view(part: Work) -> RenderableType:
    texts = list(zip(part.inputs, operand_texts(part.inputs), strict=True))
    if part.again:
        given = ", ".join(f"{operand.name} = {text}" for operand, text in texts)
        lines: list[RenderableType] = [Text(f"{part.equation.name} again: {given}")]
    else:
        lines = [Text(f"{part.equation.name}: {part.equation.meaning}", style="bold")]
        lines.append(Text(unicode_math(part.equation.latex), style="italic"))
        lines += [Text(f"{operand.name} = {text}    {operand.meaning}") for operand, text in texts]
    lines += _number_lines(part.output.name, part.output.value, part.rows, part.columns)
    return Group(*lines, *(Text(cell, style="cyan") for cell in part.cells))


@_view.register
def _slope_view(part: Slope) -> RenderableType:
    rules = [(rule.name, rule.gradient.latex) for rule in part.rules if rule.gradient is not None]
    lines = [Text(f"{name}, backward: {unicode_math(latex)}", style="italic") for name, latex in rules]
    return Group(*lines, *_number_lines(part.name, part.value, part.rows, part.columns))


@_view.register
def _beside_view(part: Beside) -> RenderableType:
    title = Text(f"{VERDICTS[part.standing]}: {part.where}", style="bold")
    note = [Text(part.how)] if part.how and part.standing in ("rounding", "corrected") else []
    rows = [(row.name, row.right, _printed_text(row)) for row in part.rows]
    if part.standing is None:
        return Group(title, FittingTable(("value", "right"), [row[:2] for row in rows]))
    return Group(title, FittingTable(("value", "right", "in print"), rows), *note)


def _printed_text(row: BesideRow) -> Text:
    """The numbers in print, each wrong one struck out and marked."""
    numbers = [Text(f"{each.text}{WRONG}", style="strike") if each.wrong else Text(each.text) for each in row.printed]
    joined = Text(", ").join(numbers)
    return Text("[").append_text(joined).append("]") if row.listed else joined


def _number_lines(name: str, value: object, rows: tuple[str, ...], columns: tuple[str, ...]) -> list[RenderableType]:
    matrix = as_matrix(value)
    if matrix is None:
        return [Text(f"{name} = {value_text(value)}")]
    shown = [row[:COLUMNS_IN_LESSONS] for row in matrix[:ROWS_IN_LESSONS]]
    table = matrix_table(shown, rows, columns, digits=DIGITS_IN_LESSONS)
    return [Text(f"{name}{part_text(shown, matrix)} ="), table]
