"""Word vectors in every format they come in."""

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.checkpoints.vectors import UnknownWordError, WordVectors, is_vectors_file, load_vectors
from glassformer.errors import CheckpointError, ModelError

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
        (b"the 1 2\nit 0.6118 3 4\n", "line 2 has more than 2 numbers, the dimension of the first line"),
        (b"2 2\nthe 1 2\nit 6e-2 3 4\n", "line 3 has more than 2 numbers, the dimension of the heading"),
        (b"\x89PNG\r\n\x1a\n\0\0", "is not a text file of word vectors"),
        (b"1 2\nab" + b"\x00" * 40, "cut off or not a vector"),
        (b"\xba\x16O/rest", "load the .vec file"),
    ],
)
def test_bad_files_are_refused(data: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "bad"
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=says):
        load_vectors(path)


@pytest.mark.parametrize("heading", [b"", b"2 2\n"])
def test_a_byte_order_mark_is_no_part_of_a_word(heading: bytes, tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(b"\xef\xbb\xbf" + heading + b"the 1 2\nend 3 4\n")
    assert load_vectors(path).words == ("the", "end")
    assert is_vectors_file(path) == bool(heading)


@pytest.mark.parametrize("most", [0, -1, 1.5])
def test_a_wrong_number_of_words_is_refused(most: int, tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("a 1 2\n")
    with pytest.raises(ModelError, match="most is"):
        load_vectors(tmp_path / "v.txt", most=most)


ROYAL = WordVectors(
    ("man", "king", "woman", "queen", "apple"),
    torch.tensor([[1.0, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1], [-1, -1, -1]]),
)


def test_neighbors_leave_the_word_out_and_fall_in_order() -> None:
    found = ROYAL.similar("king", 4)
    assert [near.text for near in found][:2] == ["man", "queen"] and found[0].cosine == pytest.approx(0.5**0.5)
    assert [near.cosine for near in found] == sorted((near.cosine for near in found), reverse=True)
    assert [near.text for near in ROYAL.similar(ROYAL["king"], 1)] == ["king"]  # of a vector, every word
    assert ROYAL.similar("King", 1) == found[:1] and ROYAL.similar("king", 99) == found


def test_an_analogy_leaves_its_words_out() -> None:
    assert ROYAL.analogy("king", "man", "woman", 1)[0].text == "queen"
    assert {near.text for near in ROYAL.analogy("king", "man", "woman", 2)} == {"queen", "apple"}


@pytest.mark.parametrize(
    "ask", [lambda v: v.similar("quen"), lambda v: v.analogy("king", "man", "quen"), lambda v: v["quen"]]
)
def test_an_unknown_word_names_the_nearest_spelling(ask: Callable[[WordVectors], object]) -> None:
    with pytest.raises(UnknownWordError, match="there is no vector for 'quen'; did you mean queen"):
        ask(ROYAL)
    with pytest.raises(UnknownWordError, match="there is no vector for 'zzz' among 5 words"):
        ROYAL.similar("zzz")


def test_a_wrong_number_of_neighbors_or_vector_is_refused() -> None:
    for wrong in (0, -1, 2.5):
        with pytest.raises(ModelError, match="top_k is"):
            ROYAL.similar("king", wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ModelError, match=r"the vector has shape \[2\], wanted \[3\]"):
        ROYAL.similar(torch.zeros(2))


def test_saved_vectors_come_back(tmp_path: Path) -> None:
    ROYAL.save(tmp_path / "royal.vec")
    found = load_vectors(tmp_path / "royal.vec")
    assert found.words == ROYAL.words and torch.equal(found.vectors, ROYAL.vectors)


def test_a_file_of_vectors_is_told_from_a_model(tmp_path: Path) -> None:
    ROYAL.save(tmp_path / "royal.bin")
    (tmp_path / "model.bin").write_bytes(b"\x00\x01\x02")
    assert is_vectors_file(tmp_path / "royal.bin") and not is_vectors_file(tmp_path / "model.bin")
    assert not is_vectors_file(tmp_path) and not is_vectors_file(tmp_path / "none.txt")
