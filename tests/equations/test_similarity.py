"""Lengths, angles, distances and neighbors: properties, references, simulations, edges and bad input."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from glassformer.equation import Equation
from glassformer.equations.sampling import temperature
from glassformer.equations.similarity import (
    analogy,
    cosine_similarity,
    euclidean_distance,
    inner_product,
    l2_norm,
    nearest,
    nearest_by_cosine,
    normalize,
    random_cosine_rms,
    score_variance,
)
from glassformer.equations.softmax import softmax
from glassformer.errors import EquationError
from glassformer.recording import Tape
from tests.equations.drawing import Draw

CASES = settings(max_examples=100, deadline=None)
CAT = torch.tensor([0.8, 0.2, 0.1], dtype=torch.float64)
DOG = torch.tensor([0.7, 0.3, 0.2], dtype=torch.float64)


def two(draw: Draw) -> tuple[Tensor, Tensor]:
    """Two batches of vectors that broadcast against each other."""
    dim = draw.integer(1, 9)
    first, second = draw.integer(1, 3), draw.integer(1, 3)
    shapes = [(first, 1, dim), (second, dim)] if draw.choose(True, False) else [(first, dim), (first, dim)]
    return draw.normal(*shapes[0]), draw.normal(*shapes[1])


@CASES
@given(data=st.data())
def test_agreement_with_torch(data: st.DataObject) -> None:
    u, v = two(Draw(data))
    assert_close(inner_product(u, v), torch.linalg.vecdot(u, v))
    assert_close(l2_norm.fn(u), torch.linalg.vector_norm(u, dim=-1))
    assert_close(normalize(u), functional.normalize(u, dim=-1))
    assert_close(cosine_similarity(u, v), functional.cosine_similarity(u, v, dim=-1))
    assert_close(euclidean_distance(u, v), functional.pairwise_distance(*torch.broadcast_tensors(u, v), eps=0))


@CASES
@given(data=st.data())
def test_distance_is_a_metric(data: st.DataObject) -> None:
    draw = Draw(data)
    u, v, w = draw.normal(3, draw.integer(1, 9)).split(1)
    assert euclidean_distance(u, u) == 0 and euclidean_distance(u, v) > 0
    assert_close(euclidean_distance(u, v), euclidean_distance(v, u))
    assert euclidean_distance(u, w) <= euclidean_distance(u, v) + euclidean_distance(v, w) + 1e-12
    assert_close(euclidean_distance(u + w, v + w), euclidean_distance(u, v))


@CASES
@given(data=st.data())
def test_cosine_knows_direction_and_not_length(data: st.DataObject) -> None:
    draw = Draw(data)
    u, v = two(draw)
    cosine = cosine_similarity(u, v)
    assert (cosine.abs() <= 1 + 1e-12).all()
    c = draw.number(0.01, 100)
    assert_close(cosine_similarity(c * u, v), cosine)
    assert_close(cosine_similarity(-u, v), -cosine)
    assert_close(cosine_similarity(u, c * u), torch.ones_like(u[..., 0]))
    assert_close(l2_norm(normalize(u)), torch.ones_like(u[..., 0]))
    # Length is what the other two measures see.
    assert_close(inner_product(c * u, v), c * inner_product(u, v))
    assert_close(euclidean_distance(u, c * u), abs(c - 1) * l2_norm(u))


@CASES
@given(data=st.data())
def test_on_unit_vectors_distance_and_cosine_rank_alike(data: st.DataObject) -> None:
    draw = Draw(data)
    u, vectors = normalize(draw.normal(5)), normalize(draw.normal(8, 5))
    cosine, distance = cosine_similarity(u, vectors), euclidean_distance(u, vectors)
    assert_close(distance.square(), 2 - 2 * cosine)
    assert torch.equal(cosine.argsort(descending=True), distance.argsort())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_zero_vectors_are_never_nan(dtype: torch.dtype) -> None:
    zero, some = torch.zeros(2, 3, dtype=dtype), torch.ones(2, 3, dtype=dtype)
    assert (cosine_similarity(zero, some) == 0).all() and (cosine_similarity(zero, zero) == 0).all()
    assert (normalize(zero) == 0).all() and (l2_norm(zero) == 0).all()


@pytest.mark.parametrize("equation", [l2_norm, normalize, cosine_similarity, euclidean_distance], ids=lambda e: e.name)
def test_gradients_at_zero_are_zero(equation: Equation[..., Tensor]) -> None:
    u, v = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True), torch.zeros(2, 3, dtype=torch.float64)
    inputs = (u,) if equation in (l2_norm, normalize) else (u, v)
    for run in filter(None, (equation.fn, equation.fused)):
        y = run(*inputs)
        (by_autograd,) = torch.autograd.grad(y, u, torch.ones_like(y))
        assert (by_autograd == 0).all()
    with Tape() as tape:
        y = equation(*inputs)
    assert (tape.reverse(torch.ones_like(y))[u] == 0).all()


def test_tiny_vectors_have_a_direction() -> None:
    u, v = torch.tensor([3e-12, 4e-12]), torch.tensor([4e-12, 3e-12])
    assert cosine_similarity(u, v).item() == pytest.approx(0.96)  # torch's own gives 0 below a length of 1e-8
    assert normalize(u).tolist() == pytest.approx([0.6, 0.8])


def test_cat_and_dog_of_the_sources() -> None:
    assert inner_product(CAT, DOG).item() == pytest.approx(0.64)
    assert [l2_norm(CAT).item(), l2_norm(DOG).item()] == pytest.approx([0.8306623862918076, 0.7874007874011811])
    assert cosine_similarity(CAT, DOG).item() == pytest.approx(0.9784971923788136)
    assert euclidean_distance(CAT, DOG).item() == pytest.approx(0.17320508075688779)
    assert cosine_similarity(CAT, 3 * CAT).item() == pytest.approx(1.0) and euclidean_distance(CAT, 3 * CAT) > 1
    assert cosine_similarity.cell((), CAT, DOG) == (
        "(0.8·0.7 + 0.2·0.3 + 0.1·0.2) / (√(0.8^2 + 0.2^2 + 0.1^2)·√(0.7^2 + 0.3^2 + 0.2^2)) = 0.9785"
    )


@CASES
@given(data=st.data())
def test_nearest_is_an_exhaustive_search(data: st.DataObject) -> None:
    draw = Draw(data)
    n, dim = draw.integer(1, 12), draw.integer(1, 5)
    vectors, query = draw.normal(n, dim), draw.normal(*draw.lead(), dim)
    k = draw.integer(1, n)
    for search, measure in ((nearest, inner_product), (nearest_by_cosine, cosine_similarity)):
        indices, scores = search(query, vectors, k)
        every = measure(query.unsqueeze(-2), vectors)
        assert_close(scores, every.sort(dim=-1, descending=True).values[..., :k])
        assert_close(scores, every.gather(-1, indices))
        assert indices.shape == (*query.shape[:-1], k)


def test_equal_scores_come_in_the_order_of_the_rows() -> None:
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [2.0, 0.0], [1.0, 0.0]]).repeat(20, 1)
    indices, scores = nearest(torch.tensor([1.0, 0.0]), vectors, k=24)
    assert indices.tolist() == [*range(3, 100, 5), 0, 2, 4, 5]
    assert scores.tolist() == [2.0] * 20 + [1.0] * 4


def test_length_matters_to_the_inner_product_and_not_to_the_cosine() -> None:
    vectors = torch.tensor([[1.0, 0.0], [3.0, 3.0]])
    query = torch.tensor([1.0, 0.1])
    assert nearest(query, vectors)[0].item() == 1 and nearest_by_cosine(query, vectors)[0].item() == 0


@CASES
@given(data=st.data())
def test_attention_becomes_nearest_as_the_temperature_falls(data: st.DataObject) -> None:
    draw = Draw(data)
    query, keys = draw.normal(4), draw.normal(6, 4)
    indices, _ = nearest(query, keys)
    scores = inner_product(query, keys)
    share = [softmax(temperature(scores, tau))[indices].item() for tau in (1.0, 0.1, 1e-6)]
    assert share[0] < share[1] + 1e-12 <= share[2] + 2e-12 and share[0] < 1
    gap = scores.topk(2).values
    assert share[2] == pytest.approx(1.0) or gap[0] - gap[1] < 1e-4


def test_search_and_attention_of_the_sources() -> None:
    q, keys = torch.tensor([1.0, 0.0, 1.0]), torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    indices, scores = nearest(q, keys, 2)
    assert indices.tolist() == [1, 0] and scores.tolist() == [2.0, 1.0]
    weights = softmax(temperature(inner_product(q, keys), math.sqrt(3)))
    assert weights.tolist() == pytest.approx([0.35954252431937245, 0.6404574756806275])


@CASES
@given(data=st.data())
def test_analogies_in_a_space_with_directions(data: st.DataObject) -> None:
    draw = Draw(data)
    man, royal, female = normalize(draw.normal(3, 24)).unbind()
    noise = 0.01 * draw.normal(4, 24)
    king, woman, queen = man + royal + noise[0], man + female + noise[1], man + royal + female + noise[2]
    found = analogy(man, king, woman)
    assert_close(found, king - man + woman)
    words = torch.stack([man, king, woman, queen, noise[3]])
    assert nearest_by_cosine(found, words, 2)[0][0].item() == 3
    assert_close(analogy(man, man, woman), woman)


def test_random_directions_are_nearly_orthogonal() -> None:
    generator = torch.Generator().manual_seed(0)
    for dim in (3, 64, 512, 4096):
        u, v = torch.randn(2, 4000, dim, generator=generator).unbind()
        cosine = cosine_similarity(u, v)
        expected = random_cosine_rms(dim)
        # The mean square of 4000 cosines strays by about √(2 / 4000) of itself, 2 %; half of that for the root.
        assert cosine.square().mean().sqrt().item() == pytest.approx(expected, rel=0.05)
        assert abs(cosine.mean().item()) < 5 * expected / math.sqrt(4000)
    assert [random_cosine_rms(d) for d in (3, 64, 512, 12288)] == pytest.approx(
        [0.5773502691896258, 0.125, 0.044194173824159216, 0.009021097956087904]
    )


@pytest.mark.parametrize(("dim", "sigma", "mu"), [(4, 1.0, 0.0), (64, 1.0, 0.0), (512, 0.5, 0.0), (64, 0.5, 0.3)])
def test_the_variance_of_scores(dim: int, sigma: float, mu: float) -> None:
    generator = torch.Generator().manual_seed(dim)
    q, k = (mu + sigma * torch.randn(2, 20000, dim, generator=generator, dtype=torch.float32)).unbind()
    scores = inner_product(q, k)
    assert scores.var().item() == pytest.approx(score_variance(dim, sigma, mu), rel=0.06)
    scaled = (scores / math.sqrt(dim)).var().item()
    assert scaled == pytest.approx(score_variance(1, sigma, mu), rel=0.06), "scaled, it no longer grows with the width"


def test_score_variance_numbers_of_the_sources() -> None:
    assert [score_variance(4, 1.0), score_variance(64, 1.0), score_variance(512, 0.5)] == [4.0, 64.0, 32.0]
    assert score_variance(64, 0.5, 0.3) == pytest.approx(6.88)


def test_unscaled_scores_saturate_the_softmax() -> None:
    generator = torch.Generator().manual_seed(2)
    largest = []
    for dim in (4, 64, 512):
        q, k = torch.randn(400, 1, dim, generator=generator), torch.randn(16, dim, generator=generator)
        scores = inner_product(q, k)
        largest.append([softmax(s).amax(-1).mean().item() for s in (scores, temperature(scores, math.sqrt(dim)))])
    unscaled, scaled = zip(*largest, strict=True)
    assert unscaled[0] < unscaled[1] < unscaled[2] and unscaled[2] > 0.9 and max(scaled) < 0.35


ONES = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cosine_similarity(ONES, torch.ones(2, 4)), r"cosine_similarity: v has shape \[2, 4\], .*dim = 3"),
        (lambda: cosine_similarity(ONES, torch.ones(3, 3)), r"cosine_similarity: v has shape \[3, 3\], .*batch = 2"),
        (lambda: cosine_similarity(ONES, ONES / 0), "cosine_similarity: v is NaN or infinite in some entries"),
        (
            lambda: euclidean_distance(ONES * torch.nan, ONES),
            "euclidean_distance: u is NaN or infinite in some entries",
        ),
        (lambda: euclidean_distance(torch.ones(2, 0), torch.ones(2, 0)), r"euclidean_distance: u is of shape \[2, 0\]"),
        (lambda: euclidean_distance(ONES, ONES.long()), "euclidean_distance: v has type int64, wanted float"),
        (lambda: inner_product(ONES, torch.tensor(1.0)), r"inner_product: v has shape \[\]"),
        (lambda: l2_norm(torch.ones(0)), r"l2_norm: u is of shape \[0\], wanted at least one number"),
        (lambda: normalize(ONES / 0), "normalize: u is NaN or infinite"),
        (lambda: nearest(ONES, ONES, 3), "nearest: k is 3, wanted from 1 to 2, the number of vectors"),
        (lambda: nearest(ONES, ONES, 0), "nearest: k is 0, wanted a whole number, at least 1"),
        (lambda: nearest(ONES, ONES, 1.5), "nearest: k is 1.5, wanted a whole number"),
        (lambda: nearest(ONES, torch.ones(2, 4)), r"nearest: vectors has shape \[2, 4\], .*dim = 3 \(from query\)"),
        (lambda: nearest(ONES, torch.ones(0, 3)), "nearest: k is 1, wanted"),
        (lambda: nearest_by_cosine(ONES, ONES * torch.nan), "nearest_by_cosine: vectors is NaN or infinite"),
        (lambda: nearest_by_cosine(ONES, ONES, 5), "nearest_by_cosine: k is 5"),
        (lambda: analogy(ONES, ONES, torch.ones(2, 2)), r"analogy: c has shape \[2, 2\]"),
        (lambda: random_cosine_rms(0), "random_cosine_rms: dim is 0"),
        (lambda: score_variance(0, 1.0), "score_variance: head_dim is 0"),
        (lambda: score_variance(4, -1.0), "score_variance: sigma is -1.0"),
    ],
)
def test_bad_input_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(EquationError, match=f"^{message}"):
        call()
