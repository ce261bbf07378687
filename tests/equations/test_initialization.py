"""First values: their bounds, their spread, their shape against torch's own, and the same draw from the same seed."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from glassformer.equations import (
    he_normal,
    normal,
    scaled_normal,
    truncated_normal,
    uniform,
    xavier_normal,
    xavier_uniform,
)
from glassformer.errors import EquationError
from glassformer.recording import Tape

INPUTS, OUTPUTS = 300, 500
COUNT = INPUTS * OUTPUTS
SPREAD = 5 / math.sqrt(2 * COUNT)  # five standard errors of a normal sample's standard deviation, as a share of it
FAR = 1.95 * math.sqrt(2 / COUNT)  # two samples of one distribution are further apart once in a thousand times
TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def distance(one: Tensor, other: Tensor) -> float:
    """The distance of Kolmogorov and Smirnov: how far apart the fractions below any number are, at most."""
    one, other = one.flatten().sort()[0], other.flatten().sort()[0]
    values = torch.cat([one, other])
    below = [torch.searchsorted(side, values, right=True) / side.numel() for side in (one, other)]
    return float((below[0] - below[1]).abs().max())


def theirs(initialize: Callable[..., Tensor], *args: object, **kwargs: object) -> Tensor:
    return initialize(torch.empty(OUTPUTS, INPUTS), *args, **kwargs, generator=seeded(1))


@pytest.mark.parametrize(
    ("ours", "std"),
    [
        (lambda: xavier_uniform(INPUTS, OUTPUTS, seeded()), math.sqrt(2 / (INPUTS + OUTPUTS))),
        (lambda: xavier_normal(INPUTS, OUTPUTS, seeded()), math.sqrt(2 / (INPUTS + OUTPUTS))),
        (lambda: he_normal(INPUTS, OUTPUTS, seeded()), math.sqrt(2 / INPUTS)),
        (lambda: normal((INPUTS, OUTPUTS), 0.5, seeded()), 0.5),
        (lambda: normal((INPUTS, OUTPUTS), generator=seeded()), 0.02),
        (lambda: scaled_normal((INPUTS, OUTPUTS), 0.02, 12, seeded()), 0.02 / math.sqrt(24)),
        (lambda: uniform((INPUTS, OUTPUTS), 0.3, seeded()), 0.3 / math.sqrt(3)),
    ],
)
def test_the_spread_is_the_formulas(ours: Callable[[], Tensor], std: float) -> None:
    W = ours()
    assert W.shape == (INPUTS, OUTPUTS) and W.dtype == torch.float32
    assert float(W.std()) == pytest.approx(std, rel=SPREAD)
    assert abs(float(W.mean())) < 5 * std / math.sqrt(COUNT)


@pytest.mark.parametrize(
    ("ours", "reference"),
    [
        (lambda: xavier_uniform(INPUTS, OUTPUTS, seeded()), lambda: theirs(torch.nn.init.xavier_uniform_)),
        (lambda: xavier_normal(INPUTS, OUTPUTS, seeded()), lambda: theirs(torch.nn.init.xavier_normal_)),
        (
            lambda: he_normal(INPUTS, OUTPUTS, seeded()),
            lambda: theirs(torch.nn.init.kaiming_normal_, nonlinearity="relu"),
        ),
        (
            lambda: truncated_normal((COUNT,), 0.02, generator=seeded()),
            lambda: theirs(torch.nn.init.trunc_normal_, 0.0, 0.02, -0.04, 0.04),
        ),
        (
            lambda: truncated_normal((COUNT,), 2.0, 0.5, seeded()),
            lambda: theirs(torch.nn.init.trunc_normal_, 0.0, 2.0, -1.0, 1.0),
        ),
    ],
)
def test_the_distribution_is_torchs(ours: Callable[[], Tensor], reference: Callable[[], Tensor]) -> None:
    assert distance(ours(), reference()) < FAR


def test_the_distance_tells_distributions_apart() -> None:
    assert distance(normal((COUNT,), 1.0, seeded()), truncated_normal((COUNT,), 1.0, generator=seeded(1))) > FAR


@settings(max_examples=50, deadline=None)
@given(cut=st.floats(0.05, 8), std=st.floats(0, 3), seed=st.integers(0, 1000), dtype=st.sampled_from(TYPES))
def test_nothing_lies_beyond_the_cut(cut: float, std: float, seed: int, dtype: torch.dtype) -> None:
    W = truncated_normal((1000,), std, cut, seeded(seed), dtype)
    assert W.dtype == dtype
    assert bool((W.abs() <= torch.tensor(cut * std, dtype=torch.float64).to(dtype).nextafter(W.new_tensor(9e4))).all())


@settings(max_examples=50, deadline=None)
@given(inputs=st.integers(1, 40), outputs=st.integers(1, 40), seed=st.integers(0, 1000))
def test_xavier_stays_within_its_bound(inputs: int, outputs: int, seed: int) -> None:
    W = xavier_uniform(inputs, outputs, seeded(seed), torch.float64)
    assert float(W.abs().max()) <= math.sqrt(6 / (inputs + outputs))


def test_signals_keep_their_size() -> None:
    x = torch.randn(1000, 400, generator=seeded(2))
    through = (x @ he_normal(400, 400, seeded())).relu()
    assert float(through.square().mean()) == pytest.approx(1, rel=0.05)
    assert float((x @ xavier_normal(400, 400, seeded())).square().mean()) == pytest.approx(1, rel=0.05)


MAKE = [
    lambda generator, dtype: uniform((3, 4), 1.0, generator, dtype),
    lambda generator, dtype: normal((3, 4), 1.0, generator, dtype),
    lambda generator, dtype: xavier_uniform(3, 4, generator, dtype),
    lambda generator, dtype: xavier_normal(3, 4, generator, dtype),
    lambda generator, dtype: he_normal(3, 4, generator, dtype),
    lambda generator, dtype: scaled_normal((3, 4), 1.0, 2, generator, dtype),
    lambda generator, dtype: truncated_normal((3, 4), 1.0, 2.0, generator, dtype),
]


@pytest.mark.parametrize("make", MAKE)
@pytest.mark.parametrize("dtype", TYPES)
def test_the_same_seed_gives_the_same_numbers(make: Callable[..., Tensor], dtype: torch.dtype) -> None:
    generator = seeded(7)
    first, second = make(generator, dtype), make(generator, dtype)
    assert first.dtype == dtype
    assert torch.equal(first, make(seeded(7), dtype))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("make", MAKE)
def test_half_precision_is_the_rounded_single(make: Callable[..., Tensor]) -> None:
    single = make(seeded(7), torch.float32)
    assert torch.equal(make(seeded(7), torch.bfloat16), single.bfloat16())


@pytest.mark.parametrize("make", MAKE)
def test_without_a_generator_torchs_own_seed_counts(make: Callable[..., Tensor]) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        first = make(None, torch.float32)
        torch.manual_seed(3)
        assert torch.equal(first, make(None, torch.float32))


@pytest.mark.parametrize("make", MAKE)
def test_a_tape_draws_the_same_numbers_again(make: Callable[..., Tensor]) -> None:
    with Tape() as tape:
        W = make(seeded(5), torch.float32)
    assert torch.equal(W, tape.replay()) and torch.equal(W, tape.replay(deep=True))


@pytest.mark.parametrize("make", MAKE)
def test_on_the_meta_device_nothing_is_drawn(make: Callable[..., Tensor]) -> None:
    with torch.device("meta"):
        assert make(None, torch.float32).is_meta


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: xavier_uniform(0, 3), "inputs is 0, wanted a whole number, at least 1"),
        (lambda: xavier_uniform(3, -1), "outputs is -1"),
        (lambda: xavier_normal(3, 2.5), "outputs is 2.5"),
        (lambda: xavier_normal(0, 2), "inputs is 0"),
        (lambda: he_normal(0, 3), "inputs is 0"),
        (lambda: he_normal(3, 3, dtype=torch.int64), "dtype is torch.int64, wanted a float type"),
        (lambda: normal((2, 0)), r"shape is \(2, 0\), wanted whole numbers, 1 or more each"),
        (lambda: normal(3), "shape is 3"),
        (lambda: normal("32"), "shape is '32'"),
        (lambda: normal((2,), -0.1), "std is -0.1"),
        (lambda: uniform((2,), -1.0), "bound is -1.0"),
        (lambda: uniform((-2,), 1.0), r"shape is \(-2,\)"),
        (lambda: scaled_normal((2,), 0.02, 0), "layers is 0"),
        (lambda: scaled_normal((2,), -0.02, 1), "std is -0.02"),
        (lambda: scaled_normal((0,), 0.02, 1), r"shape is \(0,\)"),
        (lambda: truncated_normal((2,), 0.02, 0.0), "cut is 0.0, wanted a number above zero"),
        (lambda: truncated_normal((2,), -0.02), "std is -0.02"),
        (lambda: truncated_normal((2,), math.nan), "std is nan"),
        (lambda: truncated_normal((2,), dtype=torch.bool), "dtype is torch.bool"),
    ],
)
def test_bad_input_is_named(call: Callable[[], object], words: str) -> None:
    with pytest.raises(EquationError, match=words):
        call()
