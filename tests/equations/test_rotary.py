"""Rotary positions: the worked examples, the properties over random inputs, and agreement with transformers."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as apply_adjacent
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as apply_halves

from glassformer.equations.rotary import rotary, rotary_frequencies
from glassformer.equations.rotary_scaling import (
    base_scaled_frequencies,
    linear_scaled_frequencies,
    llama3_scaled_frequencies,
    ntk_scaled_frequencies,
    yarn_scaled_frequencies,
    yarn_temperature,
)
from glassformer.errors import EquationError
from tests.cases import cases

CASES = settings(max_examples=100, deadline=None)
MANY = cases(100)
LAYOUTS = st.sampled_from(["adjacent", "halves"])
PAIRS = st.integers(1, 16)
PLACES = st.integers(0, 5000)
SEEDS = st.integers(0, 2**31 - 1)


def normal(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def at(x: Tensor, position: int, **settings: object) -> Tensor:
    """One vector, turned to one position."""
    return rotary(x[None], torch.tensor([position]), **settings)[0]


def test_the_rotation_of_the_worked_example() -> None:
    q = torch.tensor([0.5, -1.0, 0.25, 2.0], dtype=torch.float64)
    k = torch.tensor([1.0, 0.3, -0.7, 0.4], dtype=torch.float64)
    q5 = [-0.8170931819315254, -0.7631243227947955, 0.1497292265573849, 2.009995313107602]
    k3 = [-1.0323284990184056, -0.15587774092026638, -0.7116832237052895, 0.3788231633578481]
    assert_close(at(q, 5).tolist(), q5, rtol=1e-14, atol=0)
    assert_close(at(k, 3).tolist(), k3, rtol=1e-14, atol=0)
    for m, n in ((5, 3), (7, 5), (102, 100), (2, 0)):
        assert float(at(q, m) @ at(k, n)) == pytest.approx(1.6173356777467163, abs=1e-13)
    assert float(at(q, 5) @ at(k, 4)) == pytest.approx(1.7157205939643747, abs=1e-13)


def test_the_frequencies_of_the_worked_examples() -> None:
    exact = torch.float64
    theta = rotary_frequencies(8, dtype=exact)
    assert_close(rotary_frequencies(4, dtype=exact).tolist(), [1.0, 0.01], rtol=1e-15, atol=0)
    assert_close(theta.tolist(), [1.0, 0.1, 0.01, 0.001], rtol=1e-15, atol=0)
    larger = [1.0, 0.07071067811865477, 0.005, 0.0003535533905932738]
    aware = [1.0, 0.06299605249474366, 0.003968502629920499, 0.00025]
    assert_close(base_scaled_frequencies(8, 10000.0, 4.0, exact).tolist(), larger, rtol=1e-14, atol=0)
    assert_close(linear_scaled_frequencies(theta, 4.0).tolist(), [0.25, 0.025, 0.0025, 0.00025], rtol=1e-14, atol=0)
    assert_close(ntk_scaled_frequencies(8, 10000.0, 4.0, exact).tolist(), aware, rtol=1e-14, atol=0)


@MANY
@given(seed=SEEDS, pairs=PAIRS, m=PLACES, layout=LAYOUTS)
def test_lengths_are_kept(seed: int, pairs: int, m: int, layout: str) -> None:
    x = normal(seed, 2 * pairs)
    assert_close(at(x, m, layout=layout).norm(), x.norm(), rtol=1e-12, atol=0)
    assert torch.equal(at(x, 0, layout=layout), x), "position 0 is not turned"


@MANY
@given(seed=SEEDS, pairs=PAIRS, m=PLACES, n=PLACES, by=PLACES, layout=LAYOUTS)
def test_scores_depend_on_the_offset_alone(seed: int, pairs: int, m: int, n: int, by: int, layout: str) -> None:
    q, k = normal(seed, 2, 2 * pairs)
    score = at(q, m, layout=layout) @ at(k, n, layout=layout)
    assert_close(at(q, m + by, layout=layout) @ at(k, n + by, layout=layout), score, rtol=0, atol=1e-9)
    assert_close(q @ at(k, n - m, layout=layout), score, rtol=0, atol=1e-9)


@CASES
@given(seed=SEEDS, pairs=PAIRS, base=st.floats(2, 1e6))
def test_the_layouts_differ_by_a_permutation_of_the_width(seed: int, pairs: int, base: float) -> None:
    x, positions = normal(seed, 2, 3, 5, 2 * pairs), torch.arange(5)
    order = torch.arange(2 * pairs).view(pairs, 2).T.flatten()  # evens first, then odds
    halves = rotary(x[..., order], positions, base, layout="halves")
    assert_close(halves, rotary(x, positions, base)[..., order], rtol=0, atol=1e-15)


@CASES
@given(seed=SEEDS, pairs=PAIRS, base=st.floats(2, 1e6))
def test_a_turn_is_a_product_of_complex_numbers(seed: int, pairs: int, base: float) -> None:
    x, positions = normal(seed, 3, 7, 2 * pairs), torch.arange(100, 107)
    angle = positions[:, None] * torch.tensor([base ** (-i / pairs) for i in range(pairs)], dtype=torch.float64)
    turned = torch.view_as_complex(x.unflatten(-1, (pairs, 2))) * torch.polar(torch.ones_like(angle), angle)
    assert_close(rotary(x, positions, base), torch.view_as_real(turned).flatten(-2), rtol=0, atol=1e-11)


@CASES
@given(seed=SEEDS, pairs=PAIRS, layout=LAYOUTS)
def test_every_sequence_may_have_its_own_positions(seed: int, pairs: int, layout: str) -> None:
    x = normal(seed, 2, 3, 4, 2 * pairs)
    positions = torch.randint(1000, (2, 1, 4), generator=torch.Generator().manual_seed(seed))
    together = rotary(x, positions, layout=layout)
    for b in range(2):
        for head in range(3):
            assert torch.equal(together[b, head], rotary(x[b, head], positions[b, 0], layout=layout))
    assert rotary(x[0, 0, :0], positions[0, 0, :0], layout=layout).shape == (0, 2 * pairs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rows_have_exact_angles(dtype: torch.dtype) -> None:
    x, positions = normal(0, 4, 64, dtype=dtype), torch.tensor([257, 1001, 4099, 30001])
    assert torch.equal(rotary(x, positions), rotary(x.float(), positions).to(dtype))
    exact = rotary(x.double(), positions)
    angle_error = positions[:, None] * torch.finfo(torch.float32).eps * x.double().unflatten(1, (-1, 2)).norm(dim=-1)
    allowed = torch.finfo(dtype).eps * exact.abs() + angle_error.repeat_interleave(2, 1)
    assert ((rotary(x, positions).double() - exact).abs() <= allowed + 1e-6).all()


def test_given_frequencies_take_the_place_of_the_base() -> None:
    x, positions = normal(0, 2, 5, 8), torch.arange(5)
    theta = rotary_frequencies(8, 500.0, torch.float64)
    assert torch.equal(rotary(x, positions, frequencies=theta), rotary(x, positions, 500.0))
    assert rotary(x.float(), positions, frequencies=theta).dtype == torch.float32
    assert not torch.allclose(rotary(x, positions, frequencies=theta), rotary(x, positions))


@pytest.mark.parametrize("head_dim", [2, 8, 64])
def test_halves_equal_llama_in_transformers(head_dim: int) -> None:
    config = LlamaConfig(hidden_size=head_dim * 2, num_attention_heads=2, head_dim=head_dim)
    q, k = normal(0, 2, 2, 2, 50, head_dim, dtype=torch.float32)
    positions = torch.stack([torch.arange(50), torch.arange(30, 80)])
    cos, sin = LlamaRotaryEmbedding(config)(q, positions)
    for x, wanted in zip((q, k), apply_halves(q, k, cos, sin), strict=True):
        assert_close(rotary(x, positions[:, None], layout="halves"), wanted)


@pytest.mark.parametrize("head_dim", [2, 8, 64])
def test_adjacent_equals_gptj_in_transformers(head_dim: int) -> None:
    x, positions = normal(0, 2, 3, 50, head_dim), torch.arange(50)
    angle = positions[:, None] * rotary_frequencies(head_dim, dtype=torch.float64)
    wanted = apply_adjacent(x.transpose(1, 2), angle.sin()[None], angle.cos()[None]).transpose(1, 2)
    assert_close(rotary(x, positions), wanted)


def reference(kind: str, head_dim: int, base: float, seq_len: int | None = None, **scaling: object) -> tuple:
    """Frequencies and attention factor of transformers."""
    parameters = {"rope_type": kind, "rope_theta": base, **scaling}
    config = LlamaConfig(hidden_size=head_dim * 2, num_attention_heads=2, head_dim=head_dim, rope_parameters=parameters)
    config.max_position_embeddings = 4096
    return ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"), seq_len=seq_len)


FLOAT32 = {"rtol": 1.3e-6, "atol": 0.0}
WIDTHS = st.integers(2, 64).map(lambda n: 2 * n)
THETAS = st.sampled_from([10000.0, 500000.0, 1e6])


@CASES
@given(d=WIDTHS, base=THETAS, factor=st.floats(1, 32))
def test_linear_scaling_equals_transformers(d: int, base: float, factor: float) -> None:
    wanted, _ = reference("linear", d, base, factor=factor)
    assert_close(linear_scaled_frequencies(rotary_frequencies(d, base), factor), wanted, **FLOAT32)


@CASES
@given(d=WIDTHS, base=THETAS, factor=st.floats(1, 32), length=st.integers(4096, 100000))
def test_ntk_scaling_equals_the_dynamic_one_of_transformers(d: int, base: float, factor: float, length: int) -> None:
    wanted, _ = reference("dynamic", d, base, length, factor=factor)
    stretched = factor * length / 4096 - (factor - 1)
    assert_close(ntk_scaled_frequencies(d, base, stretched), wanted, **FLOAT32)


@CASES
@given(
    d=WIDTHS,
    base=THETAS,
    factor=st.floats(1, 64),
    length=st.integers(256, 32768),
    ends=st.sampled_from([(32.0, 1.0), (20.0, 2.0), (8.0, 0.5)]),
    truncate=st.booleans(),
)
def test_yarn_equals_transformers(
    d: int, base: float, factor: float, length: int, ends: tuple[float, float], truncate: bool
) -> None:
    scaling = {"factor": factor, "original_max_position_embeddings": length, "truncate": truncate}
    wanted, sharper = reference("yarn", d, base, beta_fast=ends[0], beta_slow=ends[1], **scaling)
    found = yarn_scaled_frequencies(rotary_frequencies(d, base), base, factor, length, *ends, truncate)
    assert_close(found, wanted, **FLOAT32)
    assert yarn_temperature(factor) == pytest.approx(sharper, rel=1e-12)


@CASES
@given(
    d=WIDTHS, base=THETAS, factor=st.floats(1, 32), length=st.integers(256, 32768), low=st.floats(0.5, 2),
    high=st.floats(3, 8),
)  # fmt: skip
def test_llama3_scaling_equals_transformers(
    d: int, base: float, factor: float, length: int, low: float, high: float
) -> None:
    scaling = {"factor": factor, "low_freq_factor": low, "high_freq_factor": high}
    wanted, _ = reference("llama3", d, base, original_max_position_embeddings=length, **scaling)
    theta = rotary_frequencies(d, base)
    found = llama3_scaled_frequencies(theta, factor, low, high, length)
    assert_close(found / theta, wanted / theta, rtol=1.3e-6, atol=1e-6)  # the share kept has an error of its own


@CASES
@given(d=WIDTHS, base=THETAS, factor=st.floats(1, 32))
def test_every_scaling_lies_between_none_and_full(d: int, base: float, factor: float) -> None:
    theta = rotary_frequencies(d, base, torch.float64)
    full = linear_scaled_frequencies(theta, factor)
    aware = ntk_scaled_frequencies(d, base, factor, torch.float64)
    for scaled in (
        aware,
        yarn_scaled_frequencies(theta, base, factor, 4096),
        llama3_scaled_frequencies(theta, factor, 1.0, 4.0, 8192),
    ):
        assert (scaled <= theta * (1 + 1e-12)).all() and (scaled >= full * (1 - 1e-12)).all()
        assert (scaled.diff() <= 0).all(), "later pairs turn no faster"
    assert_close(aware[[0, -1]], torch.stack([theta[0], full[-1]]), rtol=1e-12, atol=0)
    assert (base_scaled_frequencies(d, base, factor, torch.float64) <= theta).all(), "a larger base turns no faster"


def test_no_stretch_changes_nothing() -> None:
    theta = rotary_frequencies(64, dtype=torch.float64)
    assert_close(yarn_scaled_frequencies(theta, 10000.0, 1.0, 4096), theta)
    assert_close(llama3_scaled_frequencies(theta, 1.0, 1.0, 4.0, 8192), theta)
    assert_close(ntk_scaled_frequencies(64, 10000.0, 1.0, torch.float64), theta)
    assert yarn_temperature(1.0) == yarn_temperature(0.5) == 1.0
    assert yarn_temperature(math.e**10) == pytest.approx(2.0)


X, ROWS, THETA = torch.randn(2, 3, 4), torch.arange(3), torch.ones(2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: rotary(torch.randn(3, 5), ROWS), r"rotary: x is of shape \[3, 5\], wanted an even last axis"),
        (lambda: rotary(torch.randn(3, 0), ROWS), "x is of shape .* wanted an even last axis"),
        (lambda: rotary(torch.randn(4), ROWS), r"x has shape \[4\], wanted \[\*batch seq head_dim\]"),
        (lambda: rotary(X, torch.arange(4)), r"positions has shape \[4\], wanted .* with .*seq = 3 \(from x\)"),
        (lambda: rotary(X, torch.zeros(3, 3).long()), r"positions has shape \[3, 3\]"),
        (lambda: rotary(X, torch.zeros(1, 2, 3).long()), r"positions has shape \[1, 2, 3\]"),
        (lambda: rotary(X, ROWS.float()), "positions has type float32, wanted int"),
        (lambda: rotary(X.long(), ROWS), "x has type int64, wanted float"),
        (lambda: rotary(X, ROWS, 0.0), "base is 0.0, wanted a number above zero"),
        (lambda: rotary(X, ROWS, layout="pairs"), "layout is 'pairs', wanted adjacent or halves"),
        (lambda: rotary(X, ROWS, frequencies=torch.ones(4)), r"frequencies is of shape \[4\], wanted \[2\]"),
        (lambda: rotary(X, ROWS, frequencies=THETA.half()), "frequencies is torch.float16, wanted float32 or float64"),
        (lambda: rotary(X, ROWS, frequencies=[1.0, 0.1]), "frequencies is a list, wanted a tensor"),
        (lambda: rotary_frequencies(7), "rotary_frequencies: head_dim is 7, wanted an even number"),
        (lambda: rotary_frequencies(8, -1.0), "base is -1.0, wanted a number above zero"),
        (lambda: rotary_frequencies(8, dtype=torch.int8), "dtype is torch.int8, wanted a float type"),
        (lambda: linear_scaled_frequencies(THETA, 0.0), "factor is 0.0, wanted a number above zero"),
        (lambda: linear_scaled_frequencies(X, 2.0), r"frequencies has shape \[2, 3, 4\], wanted \[pairs\]"),
        (lambda: base_scaled_frequencies(8, 10000.0, -4.0), "alpha is -4.0, wanted a number above zero"),
        (lambda: base_scaled_frequencies(9, 10000.0, 4.0), "base_scaled_frequencies: head_dim is 9"),
        (lambda: ntk_scaled_frequencies(2, 10000.0, 4.0), "head_dim is 2, wanted above 2"),
        (lambda: ntk_scaled_frequencies(8, 10000.0, math.inf), "factor is inf, wanted a number above zero"),
        (lambda: yarn_scaled_frequencies(THETA, 1.0, 4.0, 64), "base is 1.0, wanted above 1"),
        (lambda: yarn_scaled_frequencies(THETA, 10.0, 4.0, 0), "original_length is 0, wanted a number above zero"),
        (lambda: yarn_scaled_frequencies(THETA, 10.0, 4.0, 64, 1.0, 2.0), "fast is 1.0, wanted more turns than slow"),
        (lambda: yarn_temperature(0.0), "yarn_temperature: factor is 0.0, wanted a number above zero"),
        (lambda: llama3_scaled_frequencies(THETA, 8.0, 4.0, 4.0, 64), "high_factor is 4.0, wanted more turns than low"),
    ],
)
def test_bad_input_is_named(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(EquationError, match=message):
        wrong()
