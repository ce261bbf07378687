"""Spans and overlaps: worked examples, and the properties that define them."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.equations.losses import cross_entropy
from glassformer.equations.overlap import longest_common_subsequence, overlap_f1, shared_ngrams
from glassformer.equations.spans import best_span, span_logits, span_scores
from glassformer.errors import EquationError


def test_a_worked_example() -> None:
    x = torch.tensor([[[0.0, 3.0], [2.0, 0.0], [1.0, 1.0], [5.0, 5.0]]])
    z = span_logits(x, torch.tensor([[True, True, True, False]]))
    assert z.tolist() == [[[0, 2, 1, -math.inf], [3, 0, 1, -math.inf]]]
    assert best_span(z, 3).tolist() == [[0, 0]]  # start 0 and end 0: 0 + 3; start 1 and end 2: 2 + 1, later
    assert best_span(z, 3, torch.tensor([[False, True, True, False]])).tolist() == [[1, 2]]
    assert span_scores(z, 2)[0, 1].tolist() == [-math.inf, 2, 3, -math.inf]


def test_an_end_is_never_before_its_start_and_never_too_far() -> None:
    z = torch.zeros(2, 5)
    z[0, 3], z[1, 1] = 9, 9  # the best start comes after the best end
    first, last = best_span(z, 5).tolist()
    assert first <= last
    z = torch.zeros(2, 5)
    z[0, 0], z[1, 4] = 2, 1
    assert best_span(z, 5).tolist() == [0, 4] and best_span(z, 2).tolist() == [0, 0]


@given(seq=st.integers(1, 7), n=st.integers(1, 8), seed=st.integers(0, 99))
def test_it_is_the_best_of_all_spans(seq: int, n: int, seed: int) -> None:
    z = torch.randn(2, seq, generator=torch.Generator().manual_seed(seed))
    spans = [(s, t) for s in range(seq) for t in range(s, min(seq, s + n))]
    best = max(spans, key=lambda span: float(z[0, span[0]] + z[1, span[1]]))
    assert tuple(best_span(z, n).tolist()) == best


def test_the_loss_of_a_span_is_the_mean_of_start_and_end() -> None:
    z = torch.randn(3, 2, 6, generator=torch.Generator().manual_seed(0))
    spans = torch.tensor([[0, 2], [5, 5], [1, 1]])
    each = [cross_entropy(z[:, side], spans[:, side]) for side in (0, 1)]
    assert cross_entropy(z, spans) == pytest.approx(float(sum(each)) / 2)


def test_a_length_below_one_is_refused() -> None:
    with pytest.raises(EquationError):
        best_span(torch.zeros(2, 3), 0)


@given(a=st.lists(st.integers(0, 2), max_size=7), b=st.lists(st.integers(0, 2), max_size=7))
def test_overlaps_by_counting(a: list[int], b: list[int]) -> None:
    one, other = torch.tensor(a, dtype=torch.long), torch.tensor(b, dtype=torch.long)
    assert int(shared_ngrams(one, other, 1)) == sum(min(a.count(kind), b.count(kind)) for kind in range(3))
    assert int(shared_ngrams(one, other, 2)) == int(shared_ngrams(other, one, 2))
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    assert int(longest_common_subsequence(one, other)) == table[-1][-1]


def test_f1_is_the_harmonic_mean() -> None:
    assert float(overlap_f1(torch.tensor(2), torch.tensor(4), torch.tensor(2))) == pytest.approx(2 / (1 / 0.5 + 1 / 1))
    assert float(overlap_f1(torch.tensor(0), torch.tensor(0), torch.tensor(0))) == 0
