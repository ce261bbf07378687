"""Negative sampling, subsampling, principal components and rank correlation: worked examples and what defines them."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from glassformer.equations.components import principal_components
from glassformer.equations.metrics import average_ranks, correlation, rank_correlation
from glassformer.equations.skip_gram import keep_probability, negative_sampling_loss, noise_distribution
from glassformer.errors import EquationError


def test_a_guess_costs_one_bit_for_each_word_and_certainty_costs_nothing() -> None:
    assert float(negative_sampling_loss(torch.zeros(6))) == pytest.approx(6 * math.log(2))
    assert float(negative_sampling_loss(torch.tensor([40.0, -40.0, -40.0]))) == pytest.approx(0, abs=1e-15)
    right, wrong = torch.tensor([[2.0, -1.0, -3.0], [-2.0, 1.0, 3.0]], dtype=torch.float64)
    sigma = torch.sigmoid(right)
    by_hand = -math.log(sigma[0]) - math.log(1 - sigma[1]) - math.log(1 - sigma[2])
    assert float(negative_sampling_loss(right)) == pytest.approx(by_hand)
    assert negative_sampling_loss(wrong) > negative_sampling_loss(right)


def test_large_logits_overflow_nothing() -> None:
    found = negative_sampling_loss(torch.tensor([-1000.0, 1000.0], dtype=torch.float32))
    assert float(found) == 2000.0


def test_noise_words_by_the_power_of_three_quarters() -> None:
    n = torch.tensor([16, 81, 0])
    assert_close(noise_distribution(n), torch.tensor([8.0, 27.0, 0.0], dtype=torch.float64) / 35)
    assert_close(noise_distribution(n, 1.0), torch.tensor([16.0, 81.0, 0.0], dtype=torch.float64) / 97)
    assert noise_distribution(n, 0.0).tolist() == [0.5, 0.5, 0.0]
    with pytest.raises(EquationError, match="n is zero for every word"):
        noise_distribution(torch.zeros(3, dtype=torch.int64))


def test_frequent_words_are_thinned_by_the_root_of_their_frequency() -> None:
    n = torch.tensor([9600, 390, 10])  # frequencies 0.96, 0.039 and 0.001
    found = keep_probability(n, 1e-3)
    assert found.tolist() == pytest.approx([math.sqrt(1e-3 / 0.96), math.sqrt(1e-3 / 0.039), 1.0])
    assert (keep_probability(n, 2.0) == 1).all()


def test_components_are_those_of_a_tilted_line() -> None:
    t = torch.tensor([-2.0, -1.0, 0.0, 3.0], dtype=torch.float64)
    X = torch.stack([3 * t + 7, 4 * t - 1], -1)  # on a line of direction (3, 4) / 5
    found = principal_components(X, 2)
    assert_close(found[:, 0], 5 * (t - t.mean()))
    assert_close(found[:, 1], torch.zeros(4, dtype=torch.float64), atol=1e-12, rtol=0)


def test_all_components_are_a_rotation_with_falling_variances() -> None:
    X = torch.randn(30, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = principal_components(X, 4)
    centered = X - X.mean(0)
    assert_close(found @ found.T, centered @ centered.T)  # every inner product is kept
    covariance = found.T @ found
    assert_close(covariance, covariance.diagonal().diag(), atol=1e-9, rtol=0)
    assert (covariance.diagonal().diff() < 0).all()


def test_more_components_than_dimensions_are_refused() -> None:
    with pytest.raises(EquationError, match="k is 3, wanted at most 2"):
        principal_components(torch.zeros(4, 2), 3)
    with pytest.raises(EquationError, match="wanted at least two vectors"):
        principal_components(torch.zeros(1, 2), 1)


def test_ties_share_their_ranks() -> None:
    assert average_ranks(torch.tensor([10.0, 30.0, 20.0, 20.0])).tolist() == [1.0, 4.0, 2.5, 2.5]


def test_rank_correlation_asks_for_the_order_only() -> None:
    x = torch.tensor([1.0, 2.0, 3.0, 10.0], dtype=torch.float64)
    assert float(rank_correlation(x, x.exp())) == pytest.approx(1.0)
    assert float(rank_correlation(x, -(x**3))) == pytest.approx(-1.0)
    assert float(correlation(x, x.exp())) < 0.99
    # 1 − 6 Σ d² / (n (n² − 1)), the formula for ranks without ties, with d = (1, 1, 0, 2)
    assert float(rank_correlation(x, torch.tensor([2.0, 1.0, 3.0, 2.5]).double())) == pytest.approx(_by_hand(x))


def _by_hand(x: Tensor) -> float:
    ranks = torch.tensor([2.0, 1.0, 4.0, 3.0])
    d = ranks - torch.tensor([1.0, 2.0, 3.0, 4.0])
    return 1 - 6 * float((d**2).sum()) / (len(x) * (len(x) ** 2 - 1))


def test_a_constant_list_has_no_correlation() -> None:
    assert float(correlation(torch.ones(3), torch.tensor([1.0, 2.0, 3.0]))) == 0.0
