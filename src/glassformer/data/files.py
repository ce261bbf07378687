"""Texts, pairs and labeled texts from files; errors name the file and the line."""

import csv
import gzip
import importlib
import json
import lzma
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import chain, zip_longest
from pathlib import Path
from typing import BinaryIO

from glassformer.errors import DataError, MissingExtraError, PathError

LONGEST = 2**30  # bytes of a line, or of a text file: a small compressed file can unpack to very much
PACKED = (".gz", ".xz")
PLAIN_ENDINGS = (".txt", ".md", "", ".text", ".markdown", ".rst", ".log")  # of files that are one document
TABBED_ENDINGS = (".txt", "", ".text")  # of tables read as .tsv
ROW_ENDINGS = (".csv", ".jsonl", ".parquet")  # endings of files with a text, or a field of one, on each row
TABLE_ENDINGS = (".tsv", *ROW_ENDINGS)


@dataclass(frozen=True, slots=True)
class Document:
    """A text and its source."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class TextPair:
    """Two texts that belong together, such as a sentence and its translation, and their source."""

    first: str
    second: str
    source: str


@dataclass(frozen=True, slots=True)
class LabeledText:
    """A text with its label, and their source."""

    label: str
    text: str
    source: str


def read_texts(path: Path | str, field: str = "text") -> Iterator[Document]:
    """Documents of a plain text file (one document), a folder of them, or a .csv, .jsonl or .parquet file (one a row).

    Plain are .txt, .md and files without an ending; a folder is its .txt files, or if it has none, its .md files.
    Several files are written with commas between them.
    """
    wanted = ".txt, .md, .csv, .jsonl, .parquet or a folder"
    for file in paths_in(path):
        if file.is_dir():
            yield from map(_read_document, _text_files(file))
        elif _format(file) in PLAIN_ENDINGS:
            yield _read_document(file)
        else:
            yield from (Document(text, source) for source, (text,) in _rows(file, (field,), ROW_ENDINGS, wanted))


def paths_in(path: Path | str) -> list[Path]:
    """The files and folders that a setting names: one, or several with commas between them."""
    if "," not in str(path) or Path(path).exists():
        return [Path(path)]
    parts = [part.strip() for part in str(path).split(",")]
    if "" in parts:
        raise PathError(f"{path}: has nothing between two commas, wanted a file")
    return [Path(part) for part in parts]


def read_pairs(
    path: Path | str, second: Path | str | None = None, fields: tuple[str, str] = ("source", "target")
) -> Iterator[TextPair]:
    """Pairs of a .tsv or .csv file of two columns, a .jsonl or .parquet file with two fields, or two files by lines."""
    if second is None:
        rows = _all_rows(path, fields, ".tsv, .csv, .jsonl, .parquet or two files")
    elif both := [file for file in (path, second) if _format(Path(file)) in TABLE_ENDINGS]:
        raise PathError(f"{both[0]}: holds both sides of its pairs, wanted a file of lines beside another")
    else:
        rows = _side_by_side(Path(path), Path(second))
    for source, (one, other) in rows:
        _require_filled(source, fields, (one, other))
        yield TextPair(one, other, source)


def read_labeled(path: Path | str, fields: tuple[str, str] = ("label", "text")) -> Iterator[LabeledText]:
    """Labeled texts of a .tsv or .csv file (label, text) or a .jsonl or .parquet file with two fields."""
    for source, (label, text) in _all_rows(path, fields, ".tsv, .csv, .jsonl or .parquet"):
        _require_filled(source, fields, (label, text))
        yield LabeledText(label, text, source)


def read_rows(
    path: Path | str, fields: Sequence[str], optional: str, wanted: str
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Rows of a table with these fields and an optional one, which is empty where the table does not have it."""
    return _all_rows(path, fields, wanted, optional)


def read_lines(path: Path | str) -> Iterator[tuple[str, str]]:
    """Lines of a file without their ends, each with its source."""
    with _opened(Path(path)) as file:
        yield from lines_of(file, str(path))


def lines_of(file: BinaryIO | BufferedIOBase, name: str) -> Iterator[tuple[str, str]]:
    """The same for an open file; only a line feed, alone or after a return, ends a line."""
    offset = 0
    for number, line in enumerate(iter(lambda: file.readline(LONGEST + 1), b""), start=1):
        if len(line) > LONGEST:
            raise DataError(f"{name}:{number}: is longer than {LONGEST:,} bytes")
        text = _decoded(line, name, number, offset)
        offset += len(line)
        text = text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
        yield f"{name}:{number}", text.removeprefix("\ufeff") if number == 1 else text


def _format(path: Path) -> str:
    """The ending that says what a file holds, in lower case: .txt of Notes.TXT.gz."""
    return (Path(path.stem) if path.suffix.lower() in PACKED else path).suffix.lower()


def _text_files(folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    files = [path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    for ending in (".txt", ".md"):
        if found := [path for path in files if _format(path) == ending]:
            return sorted(found, key=lambda path: path.relative_to(folder).as_posix())
    raise PathError(f"{folder}: holds no .txt or .md file")


def _all_rows(
    path: Path | str, fields: Sequence[str], wanted: str, optional: str | None = None
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Rows of a table, of several with commas between them, or of the tables in a folder."""
    for file in paths_in(path):
        tables = [file]
        if file.is_dir():
            tables = sorted(each for each in file.iterdir() if each.is_file() and _format(each) in TABLE_ENDINGS)
            if not tables:
                raise PathError(f"{file}: holds no {' or '.join(TABLE_ENDINGS)} file")
        for table in tables:
            yield from _rows(table, fields, TABLE_ENDINGS, wanted, optional)


def _rows(
    path: Path, fields: Sequence[str], formats: Sequence[str], wanted: str, optional: str | None = None
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Rows of a file, each with its source; an error if there are none."""
    form = _format(path)
    if form in TABBED_ENDINGS and ".tsv" in formats:
        form = ".tsv"
    if form not in formats:
        raise PathError(f"{path}: is {form or 'without an ending'}, wanted {wanted}")
    if form in (".tsv", ".csv"):
        rows = _by_header(table_rows(path), fields, optional)
    else:
        rows = (_json_lines if form == ".jsonl" else _parquet)(path, fields, optional)
    empty = True
    for row in rows:
        yield row
        empty = False
    if empty:
        raise DataError(f"{path}: is empty")


def table_rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The rows of a .tsv or .csv file, each with its source; a file with another ending is read as .tsv."""
    if _format(path) == ".csv":
        return _csv_rows(path)
    return ((source, line.split("\t")) for source, line in read_lines(path))


def _by_header(
    rows: Iterator[tuple[str, list[str]]], fields: Sequence[str], optional: str | None = None
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Columns by name if the first row names the fields, else in the order of the fields; an optional one is last."""
    first = next(rows, ("", []))
    has_header = all(name in first[1] for name in fields)
    columns = [first[1].index(name) for name in fields] if has_header else range(len(fields))
    count = len(first[1]) if has_header else len(fields)
    last = first[1].index(optional) if has_header and optional in first[1] else None
    for source, row in rows if has_header or not first[1] else chain([first], rows):
        if len(row) != count:
            wanted = "as in the first row" if has_header else ", ".join(fields)
            plural, tabs = ("", "; a tab separates columns") if len(row) == 1 else ("s", "")
            raise DataError(f"{source}: has {len(row)} column{plural}, wanted {count}: {wanted}{tabs}")
        more = () if optional is None else ("" if last is None else row[last],)
        yield source, (*(row[column] for column in columns), *more)


def _csv_rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The rows of a .csv file, each with its first line; a quoted text may have several lines."""
    csv.field_size_limit(LONGEST)
    rows, line = csv.reader((f"{line}\n" for _, line in read_lines(path)), strict=True), 1
    try:
        for row in rows:
            if row:
                yield f"{path}:{line}", row
            line = rows.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}:{line}: is not a row of a .csv file: {error}") from None


def _json_lines(
    path: Path, fields: Sequence[str], optional: str | None = None
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for source, line in read_lines(path):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{source}: is not JSON: {error}") from None
        if not isinstance(row, dict):
            raise DataError(f"{source}: is not an object with the fields {', '.join(fields)}")
        more = [] if optional is None else [optional]
        row = {**dict.fromkeys(more, ""), **row}
        yield source, tuple(_field(row, name, source) for name in (*fields, *more))


def _field(row: dict[str, object], name: str, source: str) -> str:
    if name not in row:
        raise DataError(f"{source}: has no field {name!r}, only {', '.join(map(repr, row)) or 'none'}")
    value = row[name]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # labels are often numbers
    if not isinstance(value, str):
        raise DataError(f"{source}: {name!r} is {json.dumps(value)[:40]}, wanted text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{source}: {name!r} has half of a surrogate pair at character {error.start}") from None
    return value.replace("\r\n", "\n")


def _parquet(path: Path, fields: Sequence[str], optional: str | None = None) -> Iterator[tuple[str, tuple[str, ...]]]:
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        raise MissingExtraError(f'{path}: reading .parquet needs pyarrow: pip install "glassformer[data]"') from None
    try:
        with parquet.ParquetFile(path) as file:
            names: list[str] = file.schema_arrow.names
            for name in fields:
                if name not in names:
                    raise DataError(f"{path}: has no column {name!r}, only {', '.join(map(repr, names)) or 'none'}")
            number, more = 0, [] if optional is None else [optional]
            columns = [*fields, *(name for name in more if name in names)]
            for batch in file.iter_batches(batch_size=1024, columns=columns):
                for row in batch.to_pylist():
                    number += 1
                    source = f"{path}:{number}"
                    yield (
                        source,
                        tuple(_field({**dict.fromkeys(more, ""), **row}, name, source) for name in (*fields, *more)),
                    )
    except FileNotFoundError:
        raise PathError(f"{path}: no such file") from None
    except (OSError, arrow.ArrowException) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


def _side_by_side(path: Path, second: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    number = 0
    ones, others = read_lines(path), read_lines(second)
    for number, (one, other) in enumerate(zip_longest(ones, others), start=1):
        if one is None or other is None:
            more = 1 + sum(1 for _ in (others if one is None else ones))
            counts = (number - 1, number - 1 + more) if one is None else (number - 1 + more, number - 1)
            raise DataError(f"{path} has {counts[0]} lines and {second} has {counts[1]}, wanted the same number")
        yield one[0], (one[1], other[1])
    if number == 0:
        raise DataError(f"{path}: is empty")


def _require_filled(source: str, fields: Sequence[str], values: Sequence[str]) -> None:
    for name, value in zip(fields, values, strict=True):
        if not value.strip():
            raise DataError(f"{source}: {name} is empty")


def _read_document(path: Path) -> Document:
    with _opened(path) as file:
        data = file.read(LONGEST + 1)
    if len(data) > LONGEST:
        raise DataError(f"{path}: is longer than {LONGEST:,} bytes, too much for one document: split it into several")
    text = _decoded(data, str(path), 1, 0).removeprefix("\ufeff")
    if not text.strip():
        raise DataError(f"{path}: is empty")
    return Document(text.replace("\r\n", "\n"), str(path))


def _decoded(data: bytes, name: str, line: int, offset: int) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        value = f"0x{data[error.start]:02x}"
        raise DataError(f"{name}:{line}: byte {offset + error.start} is {value}, which is not UTF-8") from None


@contextmanager
def _opened(path: Path) -> Iterator[BufferedIOBase]:
    try:
        with _unpacked(path) as file:
            yield file
    except FileNotFoundError:
        raise PathError(f"{path}: no such file") from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


def _unpacked(path: Path) -> BufferedIOBase:
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise DataError(f"{path}: is not a plain file; a pipe can be read only once")
    packed = path.suffix.lower()
    if packed == ".gz":
        return gzip.GzipFile(path, "rb")
    return lzma.LZMAFile(path) if packed == ".xz" else path.open("rb")
