"""Tables of numbers, as they are read from files, split and made into batches; and samples of a sine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64

from glassformer.data.batches import Batch, Batches, Plan, Rows, require_rows, sample_stride
from glassformer.data.files import table_rows
from glassformer.errors import DataError, PathError

SINE = "sine"
POINTS, REACH = 200, 10.0  # of the built-in sine: from minus to plus so much
ENDINGS = (".csv", ".tsv")
Values = Float64[np.ndarray, "rows columns"]


@dataclass(frozen=True)
class NumberTable:
    """Rows of numbers, the names of their columns, and where they come from."""

    columns: tuple[str, ...]
    values: Values
    source: str

    def target(self, name: str) -> int:
        """The number of the column called so, or of the last one where no name is given."""
        if not name:
            return len(self.columns) - 1
        if name not in self.columns:
            raise DataError(f"{self.source}: has no column {name!r}, only {', '.join(self.columns)}")
        return self.columns.index(name)


def sine_table() -> NumberTable:
    """Points of a sine: x from -10 to 10 at equal distances, and y = sin x."""
    x = np.linspace(-REACH, REACH, POINTS)
    return NumberTable(("x", "y"), np.stack([x, np.sin(x)], 1), SINE)


def read_numbers(path: Path | str) -> NumberTable:
    """A .csv or .tsv file of numbers, packed or not; the first row may name the columns."""
    file = Path(path)
    if not set(file.suffixes[-2:]) & set(ENDINGS):
        raise PathError(f"{path}: wanted a table of numbers, a {' or '.join(ENDINGS)} file")
    rows = ((source, [cell.strip() for cell in row]) for source, row in table_rows(file) if any(map(str.strip, row)))
    first = next(rows, None)
    if first is None:
        raise DataError(f"{path}: is empty")
    named = not any(map(_is_number, first[1]))
    names = tuple(first[1]) if named else tuple(f"column {number}" for number in range(1, len(first[1]) + 1))
    if len(names) < 2 or len(set(names)) < len(names):
        why = "has one column" if len(names) < 2 else "has two columns of one name"
        raise DataError(f"{first[0]}: {why}, wanted at least two different ones: inputs, and what to predict")
    found = [] if named else [_numbers(*first, names)]
    found += [_numbers(source, row, names) for source, row in rows]
    return NumberTable(names, np.array(found, dtype=np.float64).reshape(-1, len(names)), str(path))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _numbers(source: str, row: Sequence[str], names: Sequence[str]) -> list[float]:
    if len(row) != len(names):
        raise DataError(f"{source}: has {len(row)} columns, wanted {len(names)}, as in the first row")
    for cell, name in zip(row, names, strict=True):
        if not _is_number(cell) or not np.isfinite(float(cell)):
            shown = repr(cell) if cell else "empty"
            raise DataError(f"{source}: {name} is {shown}, wanted a finite number: fill it in, or leave out the row")
    return [float(cell) for cell in row]


class TableBatches(Batches):
    """Rows of a table: `x` [batch, inputs] and `y` [batch, 1]."""

    def __init__(
        self, table: NumberTable, target: int, batch: int, seed: int = 0, rank: int = 0, world: int = 1
    ) -> None:
        super().__init__(seed, rank, world)
        self.table, self.target = table, target
        self.x, self.y = np.delete(table.values, target, 1), table.values[:, [target]]
        self.batch = min(batch, len(self.x))
        require_rows(self.batch, world)

    def settings(self) -> dict[str, int]:
        """Rows, columns, the target and the batch."""
        rows, columns = self.table.values.shape
        return {"rows": rows, "columns": columns, "target": self.target, "batch": self.batch}

    def _sample(self) -> Iterator[Sequence[int]]:
        yield from self.table.values[:: sample_stride(len(self.x))].view(np.int64)  # pyright: ignore

    def _shuffled(self, random: np.random.Generator) -> Plan:
        order = random.permutation(len(self.x))[: len(self.x) // self.batch * self.batch]
        return list(order.reshape(-1, self.batch))

    def _in_order(self) -> Plan:
        return [np.arange(at, min(at + self.batch, len(self.x))) for at in range(0, len(self.x), self.batch)]

    def _make(self, rows: Rows, epoch: int, index: int) -> Batch:
        mine = rows[self.rank :: self.world]
        return {"x": torch.from_numpy(self.x[mine]).float(), "y": torch.from_numpy(self.y[mine]).float()}
