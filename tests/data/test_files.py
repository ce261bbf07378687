"""Whatever is in a file is read, or said to be wrong with file and line."""

import csv
import gzip
import importlib.util
import json
import lzma
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data import files
from glassformer.data.files import Document, LabeledText, TextPair, read_labeled, read_pairs, read_texts
from glassformer.errors import DataError, MissingExtraError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PYARROW = importlib.util.find_spec("pyarrow") is not None
PACK: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


def write(path: Path, text: str | bytes) -> Path:
    data = text.encode() if isinstance(text, str) else text
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(PACK[path.suffix.lower() if path.suffix.lower() in PACK else ""](data))
    return path


def rows(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize("packed", PACK)
def test_every_format_plain_and_packed(packed: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"a.txt{packed}", "one\n\ntwo\n")
    assert list(read_texts(path)) == [Document("one\n\ntwo\n", str(path))]
    path = write(tmp_path / f"a.jsonl{packed}", rows({"text": "one", "id": 1}) + "\n" + rows({"text": ""}))
    assert list(read_texts(path)) == [Document("one", f"{path}:1"), Document("", f"{path}:3")]
    path = write(tmp_path / f"pairs.tsv{packed}", "you\ttú\nI\tyo")
    assert list(read_pairs(path)) == [TextPair("you", "tú", f"{path}:1"), TextPair("I", "yo", f"{path}:2")]
    path = write(tmp_path / f"pairs.jsonl{packed}", rows({"en": "you", "es": "tú"}))
    assert list(read_pairs(path, fields=("en", "es"))) == [TextPair("you", "tú", f"{path}:1")]
    one, other = write(tmp_path / f"p.en{packed}", "you\nI\n"), write(tmp_path / f"p.es{packed}", "tú\nyo")
    assert [(pair.first, pair.second) for pair in read_pairs(one, other)] == [("you", "tú"), ("I", "yo")]
    path = write(tmp_path / f"l.tsv{packed}", "good\tI like it\n")
    assert list(read_labeled(path)) == [LabeledText("good", "I like it", f"{path}:1")]
    path = write(tmp_path / f"l.jsonl{packed}", rows({"text": "fine", "label": 1}))
    assert list(read_labeled(path)) == [LabeledText("1", "fine", f"{path}:1")]


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.TXT", "a/c.txt.gz", "notes.md", ".hidden.txt", "a/._c.txt", ".old/d.txt"):
        write(tmp_path / name, name)
    assert [document.text for document in read_texts(tmp_path)] == ["a/c.txt.gz", "a/z.TXT", "b.txt"]
    only = write(tmp_path / "a" / "only" / "x.Md", "x").parent
    assert [document.text for document in read_texts(only)] == ["x"], "without .txt files, those of Markdown"
    with pytest.raises(DataError, match=r"a/other: holds no \.txt or \.md file"):
        list(read_texts(write(tmp_path / "a" / "other" / "x.html", "x").parent))


@pytest.mark.parametrize("name", ["a.TXT", "a.md", "README", "a.Txt.GZ", "a.MD.xz"])
def test_plain_text_goes_by_several_names(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, "one\r\ntwo")
    assert list(read_texts(path)) == [Document("one\ntwo", str(path))]


def test_endings_may_be_in_capitals(tmp_path: Path) -> None:
    assert [pair.first for pair in read_pairs(write(tmp_path / "a.TSV", "one\tuno"))] == ["one"]
    assert [each.text for each in read_texts(write(tmp_path / "a.JSONL.XZ", rows({"text": "one"})))] == ["one"]


@pytest.mark.parametrize("packed", PACK)
def test_columns_between_commas(packed: str, tmp_path: Path) -> None:
    path = write(
        tmp_path / f"a.csv{packed}",
        '\ufefftext,id,label\r\n"I like it, ""a lot""\r\nreally",1,good\r\n\r\nno,2,bad\r\n',
    )
    found = list(read_labeled(path))
    assert found[0] == LabeledText("good", 'I like it, "a lot"\nreally', f"{path}:2")
    assert found[1] == LabeledText("bad", "no", f"{path}:5")
    assert [document.text for document in read_texts(path)] == ['I like it, "a lot"\nreally', "no"]
    path = write(tmp_path / f"b.csv{packed}", 'you,tú\n"yes, I",sí')
    assert [(pair.first, pair.second) for pair in read_pairs(path)] == [("you", "tú"), ("yes, I", "sí")]
    path = write(tmp_path / f"c.csv{packed}", "one\n\ntwo\n")
    assert [document.text for document in read_texts(path)] == ["one", "two"], "a single column needs no name"


@given(table=st.lists(st.tuples(TEXT.filter(str.strip), TEXT.filter(str.strip)), min_size=1, max_size=4))
def test_any_text_between_commas_comes_back(
    table: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("any") / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("source", "target"), *table])
    found = [(pair.first, pair.second) for pair in read_pairs(path)]
    assert found == [tuple(text.replace("\r\n", "\n") for text in pair) for pair in table]


def test_marks_and_line_ends_of_other_systems(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "\ufeffone\r\ntwo\rthree\x00 \u2028 \x85\n")
    assert next(read_texts(path)).text == "one\ntwo\rthree\x00 \u2028 \x85\n"
    path = write(tmp_path / "a.tsv", "\ufeffone\tuno\r\ntwo \u2028 \x85 \x0c\x00\tdos\r\n")
    pairs = [(pair.first, pair.second) for pair in read_pairs(path)]
    assert pairs == [("one", "uno"), ("two \u2028 \x85 \x0c\x00", "dos")]
    path = write(tmp_path / "a.jsonl", '\ufeff{"text": "a\\r\\nb\\rc\\u0000"}\r\n')
    assert next(read_texts(path)).text == "a\nb\rc\x00", "as in a file of plain text"


@given(texts=st.lists(TEXT, min_size=1, max_size=5))
def test_any_text_in_json_comes_back(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    texts = [text.replace("\r\n", "\n") for text in texts]
    path = write(tmp_path_factory.mktemp("any") / "a.jsonl", rows(*({"text": text} for text in texts)))
    assert [document.text for document in read_texts(path)] == texts
    raw = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
    assert [document.text for document in read_texts(write(path, raw))] == texts


READERS = {"texts": read_texts, "pairs": read_pairs, "labeled": read_labeled}
BAD = [
    ("texts", "a.txt", b"", "a.txt: is empty"),
    ("texts", "a.txt", b" \n\r\n", "a.txt: is empty"),
    ("texts", "a.txt", b"fine\nf\xffne", "a.txt:2: byte 6 is 0xff, which is not UTF-8"),
    ("texts", "a.txt", "\ud800".encode("utf-8", "surrogatepass"), "a.txt:1: byte 0 is 0xed, which is not UTF-8"),
    ("texts", "a.txt", "text".encode("utf-16"), "a.txt:1: byte 0 is 0xff, which is not UTF-8"),
    ("texts", "a.html", b"a", "a.html: is .html, wanted .txt, .md, .csv, .jsonl, .parquet or a folder"),
    ("texts", "a", b" \n", "a: is empty"),
    ("texts", "a.csv", b"", "a.csv: is empty"),
    ("texts", "a.csv", b"id,text\n", "a.csv: is empty"),
    ("texts", "a.csv", b"id,body\n1,a\n", "a.csv:1: has 2 columns, wanted 1: text"),
    ("labeled", "a.csv", b"text,id,label\na,b\n", "a.csv:2: has 2 columns, wanted 3: as in the first row"),
    ("labeled", "a.csv", b'label,text\na,"b\nc\n', "a.csv:2: is not a row of a .csv file"),
    ("labeled", "a.csv", b'label,text\n,"b"\n', "a.csv:2: label is empty"),
    ("pairs", "a", b"a", "a:1: has 1 column, wanted 2: source, target; a tab separates columns"),
    ("texts", "a.jsonl", b"", "a.jsonl: is empty"),
    ("texts", "a.jsonl", b"\n\n", "a.jsonl: is empty"),
    ("texts", "a.jsonl", b'{"text": "a"}\n{"text": "b"', "a.jsonl:2: is not JSON"),
    ("texts", "a.jsonl", b'{"text": "a"}\n["b"]', "a.jsonl:2: is not an object with the fields text"),
    ("texts", "a.jsonl", b'{"body": "a", "id": 1}', "a.jsonl:1: has no field 'text', only 'body', 'id'"),
    ("texts", "a.jsonl", b"{}", "a.jsonl:1: has no field 'text', only none"),
    ("texts", "a.jsonl", b'{"text": null}', "a.jsonl:1: 'text' is null, wanted text"),
    ("texts", "a.jsonl", b'{"text": true}', "a.jsonl:1: 'text' is true, wanted text"),
    ("texts", "a.jsonl", b'{"text": "ab\\ud800"}', "a.jsonl:1: 'text' has half of a surrogate pair at character 2"),
    ("texts", "a.jsonl", b"[" * 100_000, "a.jsonl:1: is not JSON"),
    ("texts", "a.jsonl", b'{"text": ' + b"9" * 5000 + b"}", "a.jsonl:1: is not JSON"),
    ("texts", "a.jsonl", b'{"text": "a"}\n{"text": "\xc3"}', "a.jsonl:2: byte 24 is 0xc3, which is not UTF-8"),
    ("pairs", "a.tsv", b"", "a.tsv: is empty"),
    ("pairs", "a.tsv", b"a\tb\nc", "a.tsv:2: has 1 column, wanted 2: source, target"),
    ("pairs", "a.tsv", b"a\tb\tc", "a.tsv:1: has 3 columns, wanted 2"),
    ("pairs", "a.tsv", b"a\tb\n\t \n", "a.tsv:2: source is empty"),
    ("pairs", "a.tsv", b"a\tb\n\nc\td", "a.tsv:2: has 1 column"),
    ("pairs", "a.tsv", b"a\t \n", "a.tsv:1: target is empty"),
    ("pairs", "a.tsv", b"a\tb\nc\xe9\td", "a.tsv:2: byte 5 is 0xe9, which is not UTF-8"),
    ("pairs", "a.jsonl", b'{"source": "a"}', "a.jsonl:1: has no field 'target', only 'source'"),
    ("pairs", "a.jsonl", b'{"source": "a", "target": ""}', "a.jsonl:1: target is empty"),
    ("pairs", "a.md", b"a", "a.md: is .md, wanted .tsv, .csv, .jsonl, .parquet or two files"),
    ("labeled", "a.tsv", b"only text", "a.tsv:1: has 1 column, wanted 2: label, text"),
    ("labeled", "a.tsv", b"\ttext", "a.tsv:1: label is empty"),
    ("labeled", "a.jsonl", b'{"label": [1], "text": "a"}', "a.jsonl:1: 'label' is [1], wanted text"),
    ("labeled", "a.md", b"a", "a.md: is .md, wanted .tsv, .csv, .jsonl or .parquet"),
]


@pytest.mark.parametrize(("reader", "name", "data", "message"), BAD, ids=range(len(BAD)))
def test_bad_input_is_one_line_with_its_place(
    reader: str, name: str, data: bytes, message: str, tmp_path: Path
) -> None:
    path = write(tmp_path / name, data)
    with pytest.raises(DataError) as caught:
        list(READERS[reader](path))
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("reader", "name"),
    [("texts", "a.txt"), ("texts", "a.jsonl.gz"), ("pairs", "a.tsv.xz"), ("pairs", "a.jsonl"), ("labeled", "a.tsv")],
)
def test_a_missing_file_is_said_to_be_missing(reader: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"{name}: no such file"):
        list(READERS[reader](tmp_path / name))


def test_files_side_by_side_have_as_many_lines(tmp_path: Path) -> None:
    one, other = write(tmp_path / "a.en", "a\nb\nc\n"), write(tmp_path / "a.de", "x\n")
    with pytest.raises(DataError, match=r"a\.en has 3 lines and \S*a\.de has 1, wanted the same number"):
        list(read_pairs(one, other))
    with pytest.raises(DataError, match=r"a\.de has 1 lines and \S*a\.en has 3, wanted the same number"):
        list(read_pairs(other, one))
    empty = write(tmp_path / "empty.de", "")
    with pytest.raises(DataError, match="is empty"):
        list(read_pairs(empty, empty))
    with pytest.raises(DataError, match=r"nowhere\.de: no such file"):
        list(read_pairs(one, tmp_path / "nowhere.de"))
    with pytest.raises(DataError, match=r"a\.en:2: target is empty"):
        list(read_pairs(one, write(tmp_path / "b.de", "x\n\nz\n")))


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.xz", "a.tsv.gz", "a.tsv.xz"])
def test_a_damaged_archive_is_an_error(name: str, tmp_path: Path) -> None:
    text = "".join(f"line {number}\tlínea {number}\n" for number in range(2000))
    path = write(tmp_path / name, text)
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0xFF
    for data in (whole[: len(whole) // 2], bytes(damaged), b"not packed"):
        path.write_bytes(data)
        with pytest.raises(DataError, match=r"a\.t\S+: (cannot be read|byte \d+ is)"):
            list(read_texts(path) if ".txt" in name else read_pairs(path))


def test_a_folder_is_no_file_and_too_much_is_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.tsv").mkdir()
    with pytest.raises(DataError, match=r"a\.tsv: holds no \.tsv or \.csv"):
        list(read_pairs(tmp_path / "a.tsv"))
    monkeypatch.setattr(files, "LONGEST", 100)
    with pytest.raises(DataError, match=r"a\.txt\.gz: is longer than 100 bytes, too much for one document"):
        list(read_texts(write(tmp_path / "a.txt.gz", "x" * 101)))
    with pytest.raises(DataError, match=r"b\.tsv:2: is longer than 100 bytes"):
        list(read_pairs(write(tmp_path / "b.tsv", "a\tb\n" + "x" * 101)))
    assert list(read_texts(write(tmp_path / "a.txt.gz", "x" * 100)))


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.tsv"])
def test_a_very_long_line_takes_memory_in_proportion(name: str, tmp_path: Path) -> None:
    size = 100_000_000
    wrap = {"a.txt": (b"", b""), "a.jsonl": (b'{"text": "', b'"}\n'), "a.tsv": (b"label\t", b"\n")}[name]
    with (tmp_path / name).open("wb") as file:
        file.write(wrap[0] + b"x" * size + wrap[1])
    program = (
        "import sys, resource; from glassformer.data.files import read_texts, read_labeled;"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "read = read_labeled if sys.argv[1].endswith('tsv') else read_texts;"
        "print(len(next(iter(read(sys.argv[1]))).text), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path / name], capture_output=True, text=True, check=True)
    length, kilobytes = map(int, done.stdout.split())
    assert length == size
    assert kilobytes * 1024 < 5 * size


@pytest.mark.skipif(PYARROW, reason="pyarrow is installed")
def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(MissingExtraError, match=r'a\.parquet: .* pip install "glassformer\[data\]"'):
        list(read_texts(write(tmp_path / "a.parquet", "x")))


@pytest.mark.skipif(not PYARROW, reason="pyarrow is not installed")
def test_parquet(tmp_path: Path) -> None:
    arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    table = {"text": ["one", "two\x00", "three"], "label": [0, 1, None], "list": [[1], [2], [3]]}
    parquet.write_table(arrow.table(table), path)
    assert [document.text for document in read_texts(path)] == ["one", "two\x00", "three"]
    assert [document.source for document in read_texts(path)][2] == f"{path}:3"
    with pytest.raises(DataError, match=r"a\.parquet:3: 'label' is null, wanted text"):
        list(read_labeled(path))
    with pytest.raises(DataError, match=r"has no column 'source', only 'text', 'label', 'list'"):
        list(read_pairs(path))
    with pytest.raises(DataError, match="'list' is"):
        list(read_texts(path, "list"))
    with pytest.raises(DataError, match="no such file"):
        list(read_texts(tmp_path / "b.parquet"))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match="cannot be read"):
        list(read_texts(path))
    parquet.write_table(arrow.table({"text": arrow.array([], arrow.string())}), path)
    with pytest.raises(DataError, match="is empty"):
        list(read_texts(path))


def test_a_file_of_pairs_has_no_second(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\n")
    (tmp_path / "b.txt").write_text("b\n")
    for names in (("a.tsv", "b.txt"), ("b.txt", "a.tsv")):
        with pytest.raises(DataError, match="a.tsv: holds both sides of its pairs"):
            list(read_pairs(*(tmp_path / name for name in names)))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.txt")
    with pytest.raises(DataError, match="a.txt: is not a plain file"):
        list(read_texts(tmp_path / "a.txt"))


@pytest.mark.parametrize(("name", "sign"), [("a.tsv", "\t"), ("a.csv", ",")])
def test_a_first_row_that_names_the_fields_is_a_header(name: str, sign: str, tmp_path: Path) -> None:
    for columns in (("label", "text"), ("text", "label")):
        rows = [columns, *(("good", "a rose") if columns[0] == "label" else ("a rose", "good") for _ in range(2))]
        (tmp_path / name).write_text("".join(sign.join(row) + "\n" for row in rows))
        assert {(text.label, text.text) for text in read_labeled(tmp_path / name)} == {("good", "a rose")}


def test_several_files_have_commas_between_them(tmp_path: Path) -> None:
    one, other = write(tmp_path / "a.txt", "one"), write(tmp_path / "b.csv", "text\ntwo\n")
    assert [document.text for document in read_texts(f"{one}, {other}")] == ["one", "two"]
    named = write(tmp_path / "x,y.txt", "with a comma")
    assert [document.text for document in read_texts(named)] == ["with a comma"], "a file of that name comes first"
    with pytest.raises(DataError, match="has nothing between two commas"):
        list(read_texts(f"{one},,{other}"))
    write(tmp_path / "tables" / "a.tsv", "good\tfine\n")
    write(tmp_path / "tables" / "b.csv", "label,text\nbad,poor\n")
    assert [text.label for text in read_labeled(tmp_path / "tables")] == ["good", "bad"]
    with pytest.raises(DataError, match="holds no .tsv or .csv or .jsonl or .parquet file"):
        list(read_labeled(write(tmp_path / "empty" / "a.md", "x").parent))


@pytest.mark.parametrize("name", ["a.txt", "a", "a.text"])
def test_tables_with_tabs_need_no_ending(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, "good\tI like it\n")
    assert list(read_labeled(path)) == [LabeledText("good", "I like it", f"{path}:1")]
    assert [(pair.first, pair.second) for pair in read_pairs(path)] == [("good", "I like it")]
