"""Tables that fit the terminal: text wraps between words, wide matrices continue below, and no number is split."""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE, SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

UNBROKEN = 32  # a longer word, such as a path, may be broken
EDGES, PER_COLUMN = 1, 3  # characters of lines and spaces around a table and around each column


class FittingTable:
    """A table of words and numbers; where its columns do not fit side by side, each row is a list of its cells."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[str | Text]], title: str = "") -> None:
        self.columns, self.title = list(columns), title
        self.rows = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay out as a table, or as lists if the terminal is too narrow."""
        widths = self._widths(options.max_width - EDGES)
        if widths is None:
            yield from self._stacked()
            return
        if self.title:  # above the table, whose own title is broken at its width
            yield Text(self.title, style="bold")
        table = Table(box=SIMPLE_HEAD)
        for column, width in zip(self.columns, widths, strict=True):
            table.add_column(column, width=width, overflow="fold")
        for row in self.rows:
            table.add_row(*row)
        yield table

    def _widths(self, room: int) -> list[int] | None:
        """A width for each column, the widest ones narrowed first; None if words would have to be broken."""
        cells = [[Text(column), *(row[i] for row in self.rows)] for i, column in enumerate(self.columns)]
        widths = [max(cell.cell_len for cell in column) for column in cells]
        words = [[Text(word).cell_len for cell in column for word in cell.plain.split()] for column in cells]
        least = [min(UNBROKEN, max(lengths, default=0)) for lengths in words]
        if cells:
            least[0] = widths[0]  # names stay in one piece, to be copied
        room -= PER_COLUMN * len(cells)
        if sum(least) > room:
            return None
        while sum(widths) > room:
            widest = max((i for i in range(len(widths)) if widths[i] > least[i]), key=lambda i: widths[i])
            widths[widest] -= 1
        return widths

    def _stacked(self) -> Iterator[Text]:
        if self.title:
            yield Text(self.title, style="bold")
        for row in self.rows:
            yield Text()
            yield row[0]
            for column, cell in zip(self.columns[1:], row[1:], strict=True):
                if cell.plain:
                    yield Text(f"  {column}: ").append_text(cell) if column else Text("  ").append_text(cell)
        yield Text()


class MatrixTable:
    """A matrix of short texts; columns that do not fit continue below, with the row labels repeated."""

    def __init__(
        self, cells: Sequence[Sequence[Text]], rows: Sequence[str] = (), columns: Sequence[str] = (), title: str = ""
    ) -> None:
        self.cells, self.rows, self.columns, self.title = cells, rows, columns, title

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay out as many columns at a time as fit."""
        names = max((Text(name).cell_len for name in self.rows), default=-PER_COLUMN)
        room = options.max_width - EDGES - PER_COLUMN - names
        title = self.title
        for block in self._blocks(room):
            yield self._table(block, title)
            title = ""

    def _blocks(self, room: int) -> Iterator[list[int]]:
        block: list[int] = []
        left = room
        for column in range(len(self.cells[0]) if self.cells else 0):
            width = max(row[column].cell_len for row in self.cells)
            width = max(width, Text(self._heading(column)).cell_len) + PER_COLUMN
            if block and width > left:
                yield block
                block, left = [], room
            block.append(column)
            left -= width
        if block:
            yield block

    def _heading(self, column: int) -> str:
        return self.columns[column] if column < len(self.columns) else ""

    def _table(self, block: Sequence[int], title: str) -> Table:
        headed = bool(self.columns)
        table = Table(box=SIMPLE, title=title or None, title_justify="left", show_header=headed, padding=(0, 1))
        if self.rows:
            table.add_column("", no_wrap=True)
        for column in block:
            table.add_column(self._heading(column), justify="right", no_wrap=True)
        for i, row in enumerate(self.cells):
            cells = [row[column] for column in block]
            table.add_row(*([self.rows[i] if i < len(self.rows) else "", *cells] if self.rows else cells))
        return table
