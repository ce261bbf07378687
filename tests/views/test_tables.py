"""Tables fit their width and never split a number."""

from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from glassformer.views.tables import FittingTable, MatrixTable
from glassformer.views.terminal import render

WORDS = st.lists(st.integers(-(10**9), 10**9).map("{:,}".format) | st.sampled_from(["a", "word"]), max_size=6)
ROWS = st.integers(1, 5).flatmap(
    lambda columns: st.lists(st.lists(WORDS.map(" ".join), min_size=columns, max_size=columns), min_size=1, max_size=4)
)


@given(ROWS, st.integers(24, 100))
def test_a_table_fits_and_keeps_its_words_whole(rows: list[list[str]], width: int) -> None:
    headings = [f"c{i}" for i in range(len(rows[0]))]
    first = max(len(row[0]) for row in rows)
    text = render(FittingTable(headings, rows), max(width, first + 2), False)
    assert max(map(len, text.splitlines())) <= max(width, first + 2)
    wanted = sorted(word for row in rows for cell in row for word in cell.split())
    found = [word for word in text.split() if word[0] != "─" and word.rstrip(":") not in headings]
    assert sorted(found) == wanted


@given(st.integers(1, 12), st.integers(1, 3), st.integers(20, 80), st.booleans())
def test_a_matrix_goes_on_below(columns: int, rows: int, width: int, named: bool) -> None:
    cells = [[Text(f"0.{1000 + 20 * i + j}") for j in range(columns)] for i in range(rows)]
    names = [f"row{i}" for i in range(rows)] if named else []
    text = render(MatrixTable(cells, names, [f"c{j}" for j in range(columns)], "title"), width, False)
    assert max(map(len, text.splitlines())) <= width
    words = text.split()
    assert all(words.count(cell.plain) == 1 for row in cells for cell in row)
    assert all(words.count(f"c{j}") == 1 for j in range(columns)) and words.count("title") == 1


def test_columns_side_by_side_where_there_is_room() -> None:
    text = render(FittingTable(("name", "value"), [("a", "23,280"), ("b", "1")], "title"), 30, False)
    assert [line.split() for line in text.splitlines() if line.strip()] == [
        ["title"],
        ["name", "value"],
        ["─" * 15],
        ["a", "23,280"],
        ["b", "1"],
    ]
