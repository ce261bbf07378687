"""Similarity sets and analogy questions: read, scored, and refused where they are malformed."""

from pathlib import Path

import pytest
import torch

from glassformer.checkpoints.vectors import WordVectors
from glassformer.checkpoints.word_tests import analogy_scores, read_questions, read_rated_pairs, similarity_score
from glassformer.errors import DataError

VECTORS = WordVectors(
    ("man", "king", "woman", "queen", "apple"),
    torch.tensor([[1.0, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1], [-1, -1, -1]]),
)


def test_pairs_are_read_with_tabs_commas_and_comments(tmp_path: Path) -> None:
    path = tmp_path / "pairs.txt"
    path.write_text("# rated\nman\tking\t7.5\nKing,queen,9\n\napple man 1\n")
    found = read_rated_pairs(path)
    assert [(pair.first, pair.second, pair.rating) for pair in found] == [
        ("man", "king", 7.5),
        ("King", "queen", 9.0),
        ("apple", "man", 1.0),
    ]
    score = similarity_score(VECTORS, [*found, *found[:0]])
    assert score.covered == score.pairs == 3 and score.correlation is not None  # King is found in lower case


def test_vectors_that_agree_with_people_correlate_and_missing_words_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "pairs.txt"
    path.write_text("man king 9\nman woman 5\nking apple 1\nman zebra 3\n")  # cosines 0.71, 0 and −0.82
    score = similarity_score(VECTORS, read_rated_pairs(path))
    assert score.correlation == pytest.approx(1.0) and (score.covered, score.pairs) == (3, 4)
    path.write_text("man king 1\nman woman 5\nking apple 9\n")
    assert similarity_score(VECTORS, read_rated_pairs(path)).correlation == pytest.approx(-1.0)
    path.write_text("a b 1\nc d 5\nman king 9\n")
    assert similarity_score(VECTORS, read_rated_pairs(path)).correlation is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("man king\n", "pairs.txt:1: is 'man king', wanted two words and a number"),
        ("man king seven\n", "wanted two words and a number"),
        ("man king 1\n", "has 1 rated pairs of words, wanted at least 3"),
        ("", "has 0 rated pairs"),
    ],
)
def test_malformed_pairs_are_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.txt").write_text(text)
    with pytest.raises(DataError, match=said):
        read_rated_pairs(tmp_path / "pairs.txt")


def test_analogies_are_answered_by_section(tmp_path: Path) -> None:
    path = tmp_path / "questions.txt"
    path.write_text(
        ": family\nman king woman queen\nking man queen woman\n: fruit\nman apple woman pear\nman king woman apple\n"
    )
    scores = {score.section: score for score in analogy_scores(VECTORS, read_questions(path))}
    assert (scores["family"].accuracy, scores["family"].covered) == (1.0, 2)
    assert (scores["fruit"].accuracy, scores["fruit"].covered, scores["fruit"].questions) == (0.0, 1, 2)
    assert scores["all"].accuracy == pytest.approx(2 / 3)
    path.write_text("man king woman\n")
    with pytest.raises(DataError, match="wanted four words"):
        read_questions(path)
    path.write_text(": empty\n")
    with pytest.raises(DataError, match="no analogy question"):
        read_questions(path)
