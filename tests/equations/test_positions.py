"""Positions: the worked examples, the properties over random inputs, and agreement with the papers' own code."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close
from transformers import T5Config
from transformers.models.bloom.modeling_bloom import _get_alibi_slopes, build_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention

from glassformer.equations.embedding import embed
from glassformer.equations.masks import aligned_positions, relative_positions
from glassformer.equations.position_biases import (
    alibi_bias,
    alibi_slopes,
    relative_position_bias,
    relative_position_bucket,
)
from glassformer.equations.positions import shift_matrix, sinusoidal_positions
from glassformer.errors import EquationError
from glassformer.recording import Tape

CASES = settings(max_examples=100, deadline=None)
LENGTHS = st.integers(0, 33)
EVEN = st.integers(1, 16).map(lambda n: 2 * n)
BASES = st.sampled_from([10000.0, 500.0, 500000.0])


def encodings(length: int, dim: int, base: float = 10000.0, start: int = 0) -> Tensor:
    return sinusoidal_positions(torch.arange(start, start + length), dim, base=base, dtype=torch.float64)


def distances(queries: int, keys: int) -> Tensor:
    return relative_positions(*aligned_positions(queries, keys))


def test_the_encodings_of_four_dimensions() -> None:
    wanted = [
        [0.0, 1.0, 0.0, 1.0],
        [0.8414709848078965, 0.5403023058681398, 0.009999833334166664, 0.9999500004166653],
        [0.9092974268256817, -0.4161468365471424, 0.01999866669333308, 0.9998000066665778],
    ]
    assert_close(encodings(3, 4), torch.tensor(wanted, dtype=torch.float64), rtol=1e-14, atol=1e-15)


@CASES
@given(length=LENGTHS, dim=EVEN, base=BASES, start=st.integers(0, 10**6))
def test_sinusoidal_equals_a_double_loop(length: int, dim: int, base: float, start: int) -> None:
    found = encodings(length, dim, base, start)
    assert found.shape == (length, dim)
    for p in range(length):
        for j in range(dim):
            angle = (start + p) / base ** (2 * (j // 2) / dim)
            wave = math.cos(angle) if j % 2 else math.sin(angle)
            assert float(found[p, j]) == pytest.approx(wave, abs=1e-9)


@CASES
@given(length=LENGTHS, dim=EVEN)
def test_a_length_stands_for_the_positions_below_it(length: int, dim: int) -> None:
    assert torch.equal(sinusoidal_positions(length, dim), sinusoidal_positions(torch.arange(length), dim))
    tokens = sinusoidal_positions.cost(torch.arange(length), dim).flops
    assert sinusoidal_positions.cost(length, dim).flops == tokens


@CASES
@given(data=st.data(), dim=EVEN, base=BASES)
def test_a_shift_is_one_matrix(data: st.DataObject, dim: int, base: float) -> None:
    k, p = data.draw(st.integers(-500, 500)), data.draw(st.integers(500, 1000))
    moved = encodings(3, dim, base, p) @ shift_matrix(k, dim, base, torch.float64)
    assert_close(moved, encodings(3, dim, base, p + k), rtol=0, atol=1e-11)


def test_the_shift_matrix_of_the_worked_example() -> None:
    M = shift_matrix(3, 8, dtype=torch.float64)
    assert_close(M[0, :2].tolist(), [-0.9899924966004454, -0.1411200080598672], rtol=1e-14, atol=0)
    assert_close(M[6, 6:].tolist(), [0.999995500003375, -0.002999995500002025], rtol=1e-13, atol=0)
    off_blocks = torch.ones(8, 8).bool() ^ torch.block_diag(*[torch.ones(2, 2)] * 4).bool()
    assert (M[off_blocks] == 0).all()


@CASES
@given(dim=EVEN, k=st.integers(-100, 100), more=st.integers(-100, 100))
def test_shifts_add_up_and_turn_back(dim: int, k: int, more: int) -> None:
    one, other = shift_matrix(k, dim, dtype=torch.float64), shift_matrix(more, dim, dtype=torch.float64)
    assert_close(one @ other, shift_matrix(k + more, dim, dtype=torch.float64), rtol=0, atol=1e-12)
    assert_close(one @ one.T, torch.eye(dim, dtype=torch.float64), rtol=0, atol=1e-12)


@CASES
@given(dim=EVEN, p=st.integers(0, 5000), q=st.integers(0, 5000), by=st.integers(0, 5000))
def test_inner_products_depend_on_distance_alone(dim: int, p: int, q: int, by: int) -> None:
    def product(p: int, q: int) -> Tensor:
        return (encodings(1, dim, start=p) * encodings(1, dim, start=q)).sum()

    closed = sum(math.cos(10000 ** (-2 * i / dim) * (p - q)) for i in range(dim // 2))
    assert_close(product(p, q), torch.tensor(closed, dtype=torch.float64), rtol=0, atol=1e-10)
    assert_close(product(p + by, q + by), product(q, p), rtol=0, atol=1e-10)


def test_the_inner_product_of_the_worked_example() -> None:
    P = encodings(44, 8)
    for p, q in ((0, 3), (5, 8), (40, 43), (8, 5)):
        assert float(P[p] @ P[q]) == pytest.approx(1.9648895262775232, abs=1e-13)


@CASES
@given(dim=EVEN, length=st.integers(1, 33), start=st.integers(0, 10**7))
def test_positions_beyond_any_training_are_defined(dim: int, length: int, start: int) -> None:
    P = encodings(length, dim, start=start)
    assert_close(P.unflatten(1, (-1, 2)).norm(dim=-1), torch.ones(length, dim // 2).double(), rtol=0, atol=1e-12)
    assert torch.equal(encodings(length + 5, dim, start=start)[:length], P), "a row does not depend on the length"


@settings(max_examples=30, deadline=None)
@given(dim=EVEN.filter(lambda d: d >= 4), length=st.integers(2, 500))
def test_no_two_positions_are_encoded_alike(dim: int, length: int) -> None:
    distance = torch.cdist(encodings(length, dim), encodings(length, dim)).fill_diagonal_(math.inf)
    assert distance.min() > 1e-3


@pytest.mark.parametrize("dim", [4, 8, 64, 512])
def test_the_slowest_pair_turns_as_its_base_says(dim: int) -> None:
    base = next(symbol for symbol in sinusoidal_positions.symbols if symbol.name == "base")
    assert "2π b^((d − 2)/d) positions" in base.meaning
    turn = 2 * math.pi * 10000 ** ((dim - 2) / dim)
    sine, cosine = sinusoidal_positions(2, dim, dtype=torch.float64)[1, -2:]
    assert_close(torch.atan2(sine, cosine).item(), 2 * math.pi / turn)


def test_the_smallest_distance_of_the_worked_example() -> None:
    P = encodings(1000, 4)
    distances = (P[:, None] - P).norm(dim=-1).fill_diagonal_(math.inf)
    assert float(distances.min()) == pytest.approx(0.07238938434848122, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_encodings_are_rounded_once_from_float64(dtype: torch.dtype) -> None:
    far = torch.arange(10**6, 10**6 + 3)
    assert torch.equal(sinusoidal_positions(far, 6, dtype=dtype), encodings(3, 6, start=10**6).to(dtype))
    assert sinusoidal_positions(3, 6).dtype == torch.float32


@CASES
@given(data=st.data())
def test_learned_positions_are_embeddings_of_positions(data: st.DataObject) -> None:
    rows = data.draw(st.integers(0, 20))
    start = data.draw(st.integers(0, rows))
    length = data.draw(st.integers(0, rows - start))
    table = torch.randn(rows, 3, dtype=torch.float64)
    with Tape() as tape:
        found = embed(table, torch.arange(start, start + length))
    wanted = torch.nn.functional.embedding(torch.arange(start, start + length), table)
    assert torch.equal(found, wanted)
    seed = torch.randn_like(found)
    gradient = torch.zeros_like(table)
    gradient[start : start + length] = seed
    assert torch.equal(tape.reverse(seed)[table], gradient)


def slopes_of_the_paper(n: int) -> list[float]:
    """The recursion of the ALiBi paper's own code."""

    def power_of_two(n: int) -> list[float]:
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(n).is_integer():
        return power_of_two(n)
    closest = 2 ** math.floor(math.log2(n))
    return power_of_two(closest) + slopes_of_the_paper(2 * closest)[0::2][: n - closest]


@pytest.mark.parametrize("heads", range(1, 130))
def test_slopes_equal_the_papers_and_blooms(heads: int) -> None:
    found = alibi_slopes(heads, torch.float64)
    assert_close(found.tolist(), slopes_of_the_paper(heads), rtol=1e-12, atol=0)
    assert_close(found.float(), _get_alibi_slopes(heads, torch.device("cpu")), rtol=1.3e-6, atol=0)
    assert len(set(found.tolist())) == heads and found.min() > 0 and found.max() < 1


@pytest.mark.parametrize("power", range(8))
def test_slopes_are_geometric(power: int) -> None:
    m = alibi_slopes(2**power, torch.float64)
    assert_close(m, m[0] ** torch.arange(1, 2**power + 1), rtol=1e-13, atol=0)
    assert float(m[-1]) == 2**-8


def test_the_slopes_of_eight_heads() -> None:
    assert alibi_slopes(8).tolist() == [0.5**k for k in range(1, 9)]


def test_the_bias_of_the_worked_example() -> None:
    wanted = [[0.0, -0.5, -1.0, -1.5], [-0.5, 0.0, -0.5, -1.0], [-1.0, -0.5, 0.0, -0.5], [-1.5, -1.0, -0.5, 0.0]]
    assert alibi_bias(distances(4, 4), 8)[0].tolist() == wanted


@CASES
@given(heads=st.integers(1, 9), queries=LENGTHS, keys=LENGTHS)
def test_alibi_equals_a_triple_loop(heads: int, queries: int, keys: int) -> None:
    found = alibi_bias(distances(queries, keys), heads, torch.float64)
    slopes = slopes_of_the_paper(heads)
    wanted = [[[-m * abs(keys - queries + i - j) for j in range(keys)] for i in range(queries)] for m in slopes]
    assert_close(found, torch.tensor(wanted, dtype=torch.float64).reshape(heads, queries, keys), rtol=1e-12, atol=0)


@CASES
@given(data=st.data(), heads=st.integers(1, 5), keys=st.integers(1, 33))
def test_cached_queries_see_what_the_whole_sequence_sees(data: st.DataObject, heads: int, keys: int) -> None:
    queries = data.draw(st.integers(1, keys))
    table = torch.randn(8, heads, dtype=torch.float64)
    cached, whole = distances(queries, keys), distances(keys, keys)
    assert torch.equal(cached, whole[-queries:])
    assert torch.equal(alibi_bias(cached, heads), alibi_bias(whole, heads)[:, -queries:])
    biases = relative_position_bias(table, whole, False, 16)
    assert torch.equal(relative_position_bias(table, cached, False, 16), biases[:, -queries:])


@pytest.mark.parametrize("heads", [1, 6, 8])
def test_causal_attention_with_our_bias_equals_blooms(heads: int) -> None:
    scores, future = torch.randn(heads, 12, 12, dtype=torch.float64), torch.ones(12, 12).triu(1).bool()
    bloom = build_alibi_tensor(torch.ones(1, 12), heads, torch.float64)
    ours = (scores + alibi_bias(distances(12, 12), heads, torch.float64)).masked_fill(future, -math.inf).softmax(-1)
    assert_close(ours, (scores + bloom).masked_fill(future, -math.inf).softmax(-1))


@CASES
@given(queries=LENGTHS, keys=LENGTHS)
def test_relative_positions_equal_a_double_loop(queries: int, keys: int) -> None:
    wanted = [[j - (keys - queries + i) for j in range(keys)] for i in range(queries)]
    assert distances(queries, keys).tolist() == wanted


BUCKETS = st.sampled_from([4, 5, 8, 16, 32, 33, 64, 320])


@CASES
@given(
    both=st.booleans(), buckets=BUCKETS, extra=st.integers(1, 1000), dtype=st.sampled_from([torch.int32, torch.int64])
)
def test_buckets_equal_those_of_transformers(both: bool, buckets: int, extra: int, dtype: torch.dtype) -> None:
    relative, furthest = torch.arange(-3000, 3001, dtype=dtype), buckets // 2 + extra
    found = relative_position_bucket(relative, both, buckets, furthest)
    assert torch.equal(found, T5Attention._relative_position_bucket(relative, both, buckets, furthest))
    assert torch.equal(relative_position_bucket(relative), T5Attention._relative_position_bucket(relative))


@CASES
@given(both=st.booleans(), buckets=BUCKETS, extra=st.integers(1, 1000))
def test_buckets_are_monotone_and_within_range(both: bool, buckets: int, extra: int) -> None:
    furthest = buckets // 2 + extra
    behind = relative_position_bucket(-torch.arange(0, 3000), both, buckets, furthest)
    ahead = relative_position_bucket(torch.arange(1, 3000), both, buckets, furthest)
    side = buckets // 2 if both else buckets
    assert (behind.diff() >= 0).all() and (ahead.diff() >= 0).all()
    assert behind[: side // 2].tolist() == list(range(side // 2)), "near distances have a bucket each"
    assert behind.max() == side - 1 and (behind[furthest:] == side - 1).all()
    assert torch.equal(ahead, behind[1:] + side) if both else (ahead == 0).all()


@pytest.mark.parametrize("decoder", [False, True])
def test_bias_equals_that_of_transformers(decoder: bool) -> None:
    config = T5Config(d_model=12, d_kv=4, num_heads=3, is_decoder=decoder)
    reference = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    table = reference.relative_attention_bias.weight.detach()
    for queries, keys in ((1, 1), (150, 150), (1, 40), (7, 200)):
        wanted = reference.compute_bias(queries, keys, past_seen_tokens=keys - queries)[0]
        assert torch.equal(relative_position_bias(table, distances(queries, keys), bidirectional=not decoder), wanted)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: sinusoidal_positions(3, 5), "sinusoidal_positions: dim is 5, wanted an even number"),
        (lambda: sinusoidal_positions(3, 0), "dim is 0, wanted an even number, at least 2"),
        (lambda: sinusoidal_positions(-1, 4), "positions is -1, wanted a whole number, at least 0"),
        (lambda: sinusoidal_positions(2.5, 4), "positions is 2.5, wanted a whole number"),
        (lambda: sinusoidal_positions("3", 4), "positions is a str, wanted a tensor of type int"),
        (lambda: sinusoidal_positions(torch.randn(3), 4), "positions has type float32, wanted int"),
        (lambda: sinusoidal_positions(3, 4, base=0.0), "base is 0.0, wanted a number above zero"),
        (lambda: sinusoidal_positions(3, 4, base=math.nan), "base is nan, wanted a number above zero"),
        (lambda: sinusoidal_positions(3, 4, layout="other"), "layout is 'other', wanted adjacent or halves"),
        (lambda: sinusoidal_positions(3, 4, dtype=torch.int64), "dtype is torch.int64, wanted a float type"),
        (lambda: shift_matrix(1.5, 4), "shift_matrix: offset is 1.5, wanted a whole number"),
        (lambda: shift_matrix(1, 3), "dim is 3, wanted an even number"),
        (lambda: embed(torch.randn(6, 2), torch.arange(3, 8)), "ids is between 3 and 7, wanted between 0 and 5"),
        (lambda: embed(torch.randn(6, 2), torch.arange(-1, 2)), "ids is between -1 and 1, wanted between 0 and 5"),
        (lambda: embed(torch.randn(6), torch.arange(3)), r"E has shape \[6\], wanted \[vocab dim\]"),
        (lambda: embed(torch.arange(6).view(3, 2), torch.arange(3)), "E has type int64, wanted float"),
        (
            lambda: relative_positions(torch.randn(2), torch.arange(4)),
            "relative_positions: p has type float32, wanted int",
        ),
        (lambda: alibi_slopes(0), "alibi_slopes: heads is 0, wanted a whole number, at least 1"),
        (lambda: alibi_slopes(2, torch.int32), "dtype is torch.int32, wanted a float type"),
        (lambda: alibi_bias(distances(3, 3), 0), "alibi_bias: heads is 0"),
        (lambda: alibi_bias(torch.arange(3), 2), r"r has shape \[3\], wanted \[\*batch queries keys\]"),
        (lambda: relative_position_bucket(torch.randn(3)), "relative has type float32, wanted int"),
        (lambda: relative_position_bucket(torch.arange(3), True, 3), "buckets is 3, wanted a whole number, at least 4"),
        (lambda: relative_position_bucket(torch.arange(3), False, 1), "buckets is 1, .* at least 2"),
        (lambda: relative_position_bucket(torch.arange(3), max_distance=8), "max_distance is 8, .* at least 9"),
        (
            lambda: relative_position_bias(torch.randn(3, 2), distances(2, 2)),
            r"table is of shape \[3, 2\], wanted at least 4",
        ),
        (lambda: relative_position_bias(torch.randn(32, 2), torch.randn(2, 2)), "r has type float32, wanted int"),
        (
            lambda: relative_position_bias(torch.randn(32, 2), distances(2, 2), False, 16),
            "max_distance is 16, .* at least 17",
        ),
    ],
)
def test_bad_input_is_named(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(EquationError, match=message):
        wrong()
