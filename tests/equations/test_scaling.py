"""Counts against real modules and the sources' numbers, and the scaling law against a search."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaMLP

from glassformer.equations import (
    arithmetic_intensity,
    attention,
    attention_macs,
    attention_parameters,
    cache_bytes,
    compute_law_loss,
    compute_optimal_size,
    crossover_length,
    feed_forward_parameters,
    gpt_parameters,
    layer_macs,
    linear,
    model_macs,
    projection_macs,
    quadratic_fraction,
    scaling_law_loss,
    training_energy,
    training_flops,
    training_hours,
)
from glassformer.errors import EquationError

CASES = settings(max_examples=100, deadline=None)
SIZE = st.integers(1, 4096)


def held(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


# The sources' numbers.


def test_gpt_sizes_are_the_worked_examples() -> None:
    assert gpt_parameters(40478, 512, 768, 12, final_norm=False) == 116_534_784
    assert gpt_parameters(50257, 1024, 1600, 48) == 1_557_611_200
    assert gpt_parameters(50257, 2048, 12288, 96) == 174_604_259_328


def test_the_matrices_of_gpt3_are_the_worked_example() -> None:
    def matrices(layers: int, dim: int) -> int:
        return layers * (attention_parameters(dim, 1) + feed_forward_parameters(dim, 4 * dim, bias=False))

    assert matrices(96, 12288) == 173_946_175_488
    assert matrices(175, 1024) == 2_202_009_600


def test_attention_costs_are_the_worked_examples() -> None:
    assert [attention_macs(n, n, 512) for n in (512, 1024)] == [268_435_456, 1_073_741_824]
    assert quadratic_fraction(2048, 12288) == pytest.approx(0.02702702702702703, rel=1e-15)
    assert crossover_length(12288) == 73728


# Parameters, counted in real modules.


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("dim", "heads"), [(12, 3), (8, 8), (5, 1)])
def test_attention_parameters_are_those_of_torch(dim: int, heads: int, bias: bool) -> None:
    assert attention_parameters(dim, heads, bias=bias) == held(nn.MultiheadAttention(dim, heads, bias=bias))
    assert bias or attention_parameters(dim, heads) == 4 * dim**2


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("heads", "groups", "head_dim"), [(4, 2, 3), (6, 1, 8), (2, 2, 6)])
def test_grouped_attention_parameters_are_those_of_llama(heads: int, groups: int, head_dim: int, bias: bool) -> None:
    config = LlamaConfig(
        hidden_size=24,
        num_attention_heads=heads,
        num_key_value_heads=groups,
        head_dim=head_dim,
        attention_bias=bias,
    )
    assert attention_parameters(24, heads, head_dim, groups, bias) == held(LlamaAttention(config, 0))


@pytest.mark.parametrize("bias", [True, False])
def test_feed_forward_parameters_are_those_of_real_layers(bias: bool) -> None:
    plain = nn.Sequential(nn.Linear(6, 20, bias=bias), nn.ReLU(), nn.Linear(20, 6, bias=bias))
    gated = LlamaMLP(LlamaConfig(hidden_size=6, num_attention_heads=1, intermediate_size=20, mlp_bias=bias))
    assert feed_forward_parameters(6, 20, bias=bias) == held(plain)
    assert feed_forward_parameters(6, 20, bias=bias, gated=True) == held(gated)


@pytest.mark.parametrize(("vocab", "context", "dim", "layers"), [(50, 16, 8, 3), (7, 5, 12, 1)])
def test_gpt_parameters_are_those_of_gpt2(vocab: int, context: int, dim: int, layers: int) -> None:
    model = GPT2LMHeadModel(GPT2Config(vocab_size=vocab, n_positions=context, n_embd=dim, n_layer=layers, n_head=2))
    assert gpt_parameters(vocab, context, dim, layers) == held(model)


@CASES
@given(vocab=SIZE, context=SIZE, dim=SIZE, layers=st.integers(1, 96))
def test_a_gpt_is_the_sum_of_its_parts(vocab: int, context: int, dim: int, layers: int) -> None:
    block = attention_parameters(dim, 1, bias=True) + feed_forward_parameters(dim, 4 * dim) + 2 * 2 * dim
    assert gpt_parameters(vocab, context, dim, layers, final_norm=False) == (vocab + context) * dim + layers * block


# Operations, counted by the equations' own costs.


@pytest.mark.parametrize(("length", "dim", "hidden"), [(5, 8, None), (7, 4, 10)])
def test_layer_operations_are_half_the_flops_of_its_products(length: int, dim: int, hidden: int | None) -> None:
    ffn_dim = hidden or 4 * dim
    x, square = torch.zeros(length, dim), torch.zeros(dim, dim)
    products = 4 * linear.cost(x, square).flops
    products += linear.cost(x, torch.zeros(dim, ffn_dim)).flops
    products += linear.cost(torch.zeros(length, ffn_dim), torch.zeros(ffn_dim, dim)).flops
    products += 2 * 2 * length * length * dim  # scores and weighted sum
    assert 2 * layer_macs(length, dim, hidden) == products


def test_attention_operations_are_the_products_in_attention() -> None:
    flops = [attention.cost(*(torch.zeros(1, 1, n, dim),) * 3).flops for n, dim in ((64, 32), (64, 33))]
    assert flops[1] - flops[0] >= 2 * attention_macs(64, 64, 1)
    assert flops[1] - flops[0] < 2.1 * attention_macs(64, 64, 1)


@CASES
@given(length=SIZE, dim=SIZE, layers=st.integers(1, 96), vocab=st.integers(0, 60000), hidden=st.none() | SIZE)
def test_operations_add_up(length: int, dim: int, layers: int, vocab: int, hidden: int | None) -> None:
    layer = layer_macs(length, dim, hidden)
    ffn_dim = 4 * dim if hidden is None else hidden
    assert layer == (projection_macs(length, dim) + attention_macs(length, length, dim) + 2 * length * dim * ffn_dim)
    assert model_macs(length, dim, layers, vocab, hidden) == layers * layer + length * dim * vocab


@CASES
@given(length=SIZE, dim=SIZE)
def test_the_quadratic_share_is_attentions_part_of_a_layer(length: int, dim: int) -> None:
    share = attention_macs(length, length, dim) / layer_macs(length, dim)
    assert quadratic_fraction(length, dim) == pytest.approx(share)
    assert quadratic_fraction(crossover_length(dim), dim) == 0.5


@CASES
@given(length=SIZE, dim=SIZE)
def test_twice_the_length_is_four_times_the_pairs_and_twice_the_projections(length: int, dim: int) -> None:
    assert attention_macs(2 * length, 2 * length, dim) == 4 * attention_macs(length, length, dim)
    assert projection_macs(2 * length, dim) == 2 * projection_macs(length, dim)


# The scaling law.


def test_chinchilla_beats_gopher_at_the_same_cost() -> None:
    gopher, chinchilla = (280e9, 300e9), (70e9, 1.4e12)
    assert training_flops(*gopher) == pytest.approx(training_flops(*chinchilla), rel=0.2)
    assert scaling_law_loss(*gopher) == pytest.approx(1.993, abs=5e-4)
    assert scaling_law_loss(*chinchilla) == pytest.approx(1.937, abs=5e-4)


@CASES
@given(exponent=st.floats(15, 27), alpha=st.floats(0.1, 0.9), beta=st.floats(0.1, 0.9), A=st.floats(1, 1e3))
def test_no_other_size_is_better_at_the_same_cost(exponent: float, alpha: float, beta: float, A: float) -> None:
    flops, law = 10**exponent, {"A": A, "alpha": alpha, "beta": beta}
    N, D = compute_optimal_size(flops, **law)
    assert training_flops(N, D) == pytest.approx(flops)
    best = scaling_law_loss(N, D, E=0.0, **law)
    assert all(scaling_law_loss(N * step, D / step, E=0.0, **law) > best for step in (0.5, 0.9, 1.1, 2))


@CASES
@given(N=st.floats(1e6, 1e12), D=st.floats(1e6, 1e13), more=st.floats(1.01, 100))
def test_more_of_either_lowers_the_loss_but_not_below_the_floor(N: float, D: float, more: float) -> None:
    loss = scaling_law_loss(N, D)
    assert loss > scaling_law_loss(N * more, D) > 1.69 and loss > scaling_law_loss(N, D * more) > 1.69


def test_where_tokens_are_in_proportion_to_the_size_the_loss_is_a_power_of_the_compute() -> None:
    law = {"E": 1.7, "A": 400.0, "alpha": 0.3, "B": 500.0, "beta": 0.3}
    whole = (400 + 500 * 20**-0.3) * 120**0.15  # C = 6·N·20N
    for N in (1e7, 1e9, 1e11):
        loss = compute_law_loss(training_flops(N, 20 * N), 1.7, whole, 0.15)
        assert loss == pytest.approx(scaling_law_loss(N, 20 * N, **law), rel=1e-12)


def test_hours_and_energy_of_gpt3_are_the_published_ones() -> None:
    """Patterson et al. (2021): 3.14e23 FLOPs at 24.6 TFLOP/s, 330 W and a PUE of 1.1 are 1,287 MWh, 14.8 days."""
    hours = training_hours(3.14e23, 24.6e12, devices=10_000)
    assert hours / 24 == pytest.approx(14.8, rel=0.005)
    assert training_energy(hours, 330.0, devices=10_000, pue=1.1) / 1000 == pytest.approx(1287, rel=0.005)


def test_a_cache_is_what_it_holds() -> None:
    keys = torch.zeros(3, 32, 8, 100, 128, dtype=torch.bfloat16)  # batch, layers, heads, tokens, width
    assert cache_bytes(32, 8, 128, 100, batch=3) == 2 * keys.numel() * keys.element_size()
    assert cache_bytes(32, 8, 128, 100, 4) == 2 * cache_bytes(32, 8, 128, 100)


def test_intensity_is_work_over_traffic() -> None:
    x, W = torch.zeros(64, 64), torch.zeros(64, 64)
    cost = linear.cost(x, W)
    assert arithmetic_intensity(cost.flops, cost.bytes) == pytest.approx(2 * 64**3 / (3 * 64 * 64 * 4))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: attention_parameters(0, 1), "dim is 0, wanted a whole number, at least 1"),
        (lambda: attention_parameters(8, 0), "heads is 0"),
        (lambda: attention_parameters(8, 3), "heads is 3, wanted a divisor of dim = 8"),
        (lambda: attention_parameters(8, 4, kv_heads=3), "kv_heads is 3, wanted a divisor of heads = 4"),
        (lambda: attention_parameters(8, 4, kv_heads=0), "kv_heads is 0"),
        (lambda: attention_parameters(8, 4, head_dim=0), "head_dim is 0"),
        (lambda: feed_forward_parameters(8, 0), "ffn_dim is 0"),
        (lambda: feed_forward_parameters(-8, 4), "dim is -8"),
        (lambda: gpt_parameters(0, 1, 1, 1), "vocab is 0"),
        (lambda: gpt_parameters(1, 0, 1, 1), "context is 0"),
        (lambda: gpt_parameters(1, 1, 1.5, 1), "dim is 1.5"),
        (lambda: gpt_parameters(1, 1, 1, 0), "layers is 0"),
        (lambda: attention_macs(0, 1, 1), "queries is 0"),
        (lambda: attention_macs(1, 0, 1), "keys is 0"),
        (lambda: attention_macs(1, 1, 0), "dim is 0"),
        (lambda: projection_macs(0, 1), "length is 0"),
        (lambda: layer_macs(1, 0), "dim is 0"),
        (lambda: layer_macs(1, 1, 0), "ffn_dim is 0"),
        (lambda: model_macs(1, 1, 0), "layers is 0"),
        (lambda: model_macs(1, 1, 1, -1), "vocab is -1"),
        (lambda: model_macs(1, 1, 1, 1, 0), "ffn_dim is 0"),
        (lambda: quadratic_fraction(0, 1), "length is 0"),
        (lambda: crossover_length(0), "dim is 0"),
        (lambda: training_flops(0, 1), "parameters is 0, wanted a number above zero"),
        (lambda: training_flops(1, -1), "tokens is -1"),
        (lambda: scaling_law_loss(0, 1), "N is 0"),
        (lambda: scaling_law_loss(1, 0), "D is 0"),
        (lambda: scaling_law_loss(math.nan, 1), "N is nan"),
        (lambda: scaling_law_loss(1, 1, alpha=0), "alpha is 0"),
        (lambda: scaling_law_loss(1, 1, E=-1), "E is -1"),
        (lambda: compute_optimal_size(0), "flops is 0"),
        (lambda: compute_optimal_size(math.inf), "flops is inf"),
        (lambda: compute_optimal_size(1, beta=-0.1), "beta is -0.1"),
        (lambda: compute_law_loss(0, 1, 1, 1), "C is 0"),
        (lambda: compute_law_loss(1, 1, 1, 0), "a is 0"),
        (lambda: training_hours(1, 0), "flops_per_second is 0"),
        (lambda: training_hours(1, 1, 0), "devices is 0"),
        (lambda: training_energy(1, 0), "watts is 0"),
        (lambda: training_energy(1, 1, pue=0.9), "pue is 0.9, wanted at least 1"),
        (lambda: arithmetic_intensity(1, 0), "bytes is 0"),
        (lambda: arithmetic_intensity(-1, 1), "flops is -1"),
        (lambda: cache_bytes(0, 1, 1, 1), "layers is 0"),
        (lambda: cache_bytes(1, 1, 1, 1, 0), "bytes_per_number is 0"),
        (lambda: cache_bytes(1, 1, 1, 1, batch=0), "batch is 0"),
    ],
)
def test_bad_input_is_named(call: Callable[[], object], words: str) -> None:
    with pytest.raises(EquationError, match=words):
        call()
