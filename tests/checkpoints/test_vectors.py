"""Word vectors in every format they come in."""

import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.checkpoints.vectors import load_vectors
from glassformer.errors import CheckpointError

WORD = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1, max_size=8)
NUMBER = st.floats(-1e6, 1e6, width=32)
TABLE = st.integers(1, 5).flatmap(
    lambda dim: st.dictionaries(WORD, st.lists(NUMBER, min_size=dim, max_size=dim), min_size=1, max_size=6)
)


def written(table: dict[str, list[float]], kind: str) -> bytes:
    """The table as one of the tools writes it."""
    dim = len(next(iter(table.values())))
    heading = f"{len(table)} {dim}\n".encode()
    if kind == "binary":
        rows = (word.encode() + b" " + struct.pack(f"<{dim}f", *row) + b"\n" for word, row in table.items())
        return heading + b"".join(rows)
    lines = "".join(f"{word} {' '.join(repr(float(x)) for x in row)}\n" for word, row in table.items()).encode()
    return lines if kind == "glove" else heading + lines


@given(TABLE, st.sampled_from(["binary", "text", "glove"]))
def test_every_format_comes_back(
    tmp_path_factory: pytest.TempPathFactory, table: dict[str, list[float]], kind: str
) -> None:
    path = tmp_path_factory.mktemp("vectors") / "vectors"
    path.write_bytes(written(table, kind))
    found = load_vectors(path)
    assert found.words == tuple(table)
    assert torch.equal(found.vectors, torch.tensor(np.array(list(table.values()), dtype=np.float32)))


def test_words_with_spaces_repeated_words_and_a_part(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text("the 1 2\n. . . 3 4\nthe 5 6\nend 7 8\n")
    found = load_vectors(path)
    assert found.words == ("the", ". . .", "end") and found.repeated == ("the",)
    assert found["the"].tolist() == [1.0, 2.0]
    assert load_vectors(path, most=2).words == ("the", ". . .")
    with pytest.raises(CheckpointError, match="there is no vector for 'cat'"):
        found["cat"]


def test_an_embedding_is_frozen_or_tuned(tmp_path: Path) -> None:
    path = tmp_path / "v.vec"
    path.write_text("2 2\na 1 2\nb 3 4\n")
    found = load_vectors(path)
    for frozen in (True, False):
        layer = found.embedding(frozen)
        assert layer.weight.requires_grad != frozen
        assert layer(torch.tensor([[found.index["b"]]])).tolist() == [[[3.0, 4.0]]]
    layer.weight.data.zero_()
    assert found["b"].tolist() == [3.0, 4.0]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no word vectors"),
        (b"3 2\na 1 2\n", "says it has 3 vectors|heading says 3"),
        (b"1000000000 300\na 1 2\n", "says it has 1,000,000,000 vectors"),
        (b"a 1 2\nb 1\n", "line 2 is not a word and 2 numbers"),
        (b"a 1 2\nb 1 x\n", "line 2 is not"),
        (b"a 1 nan\n", "line 1 is not"),
        (b"1 2\nab" + b"\x00" * 40, "cut off or not a vector"),
        (b"\xba\x16O/rest", "load the .vec file"),
    ],
)
def test_bad_files_are_refused(data: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "bad"
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=says):
        load_vectors(path)
