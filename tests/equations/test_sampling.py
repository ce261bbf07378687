"""From logits to a token: what every cut keeps, agreement with transformers, frequencies, edges and bad input."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from glassformer.equation import Equation
from glassformer.equations.information import entropy
from glassformer.equations.sampling import (
    greedy,
    length_penalty,
    min_p,
    repetition_penalty,
    sample,
    suppress_tokens,
    temperature,
    top_k,
    top_p,
)
from glassformer.equations.softmax import softmax
from glassformer.errors import EquationError
from glassformer.kernel_calls import MemoryMeter
from glassformer.recording import Tape
from tests.equations.drawing import Draw

CASES = settings(max_examples=100, deadline=None)


def logits(draw: Draw) -> Tensor:
    """A batch of logits without ties."""
    return draw.choose(0.5, 1.0, 5.0) * draw.normal(draw.integer(1, 4), draw.integer(1, 40))


@CASES
@given(data=st.data())
def test_every_cut_equals_that_of_transformers(data: st.DataObject) -> None:
    draw = Draw(data)  # in float64: a cumulated probability that falls on p itself may round either way
    z = logits(draw)
    batch, vocab = z.shape
    none = torch.zeros(batch, 0, dtype=torch.int64)
    tau, k, p = draw.number(0.05, 5), draw.integer(1, vocab), draw.number(0.01, 1)
    assert_close(temperature(z, tau), TemperatureLogitsWarper(tau)(none, z))
    assert torch.equal(top_k(z, k), TopKLogitsWarper(k)(none, z))
    assert torch.equal(top_p(z, p), TopPLogitsWarper(p)(none, z))
    assert torch.equal(min_p(z, p), MinPLogitsWarper(p)(none, z))
    ids, penalty = draw.below(vocab, batch, draw.integer(1, 6)), draw.number(0.5, 2)
    assert_close(repetition_penalty(z, ids, penalty), RepetitionPenaltyLogitsProcessor(penalty)(ids, z.clone()))


@CASES
@given(data=st.data())
def test_cuts_keep_the_best_unchanged_and_drop_the_rest(data: st.DataObject) -> None:
    draw = Draw(data)
    z = logits(draw)
    for y in (top_k(z, draw.integer(1, z.shape[-1])), top_p(z, draw.number(0.01, 1)), min_p(z, draw.number(0.01, 1))):
        kept = y > -torch.inf
        assert torch.equal(y[kept], z[kept])
        assert (kept.sum(-1) >= 1).all() and torch.equal(greedy(y), greedy(z))
        least_kept = z.where(kept, torch.inf).amin(-1)
        assert (z.where(~kept, -torch.inf).amax(-1) < least_kept).all(), "something better was dropped"


@CASES
@given(data=st.data())
def test_top_p_is_the_smallest_set_that_reaches_p(data: st.DataObject) -> None:
    draw = Draw(data)
    z, p = logits(draw), draw.number(0.01, 0.999)
    kept = top_p(z, p) > -torch.inf
    probabilities = softmax(z)
    held = probabilities.where(kept, 0).sum(-1)
    assert (held >= p - 1e-9).all()
    without_least = held - probabilities.where(kept, 1).amin(-1)
    assert (without_least < p + 1e-9).all()


@CASES
@given(data=st.data())
def test_min_p_asks_for_a_fraction_of_the_best(data: st.DataObject) -> None:
    draw = Draw(data)
    z, p = logits(draw), draw.number(0.01, 0.999)
    probabilities = softmax(z)
    assert torch.equal(min_p(z, p) > -torch.inf, probabilities / probabilities.amax(-1, keepdim=True) >= p)


def test_ties_go_to_those_that_come_first() -> None:
    z = torch.tensor([1.0, 2.0, 1.0, 2.0, 1.0])
    kept = {k: (top_k(z, k) > -torch.inf).nonzero().flatten().tolist() for k in range(1, 6)}
    assert kept == {1: [1], 2: [1, 3], 3: [0, 1, 3], 4: [0, 1, 2, 3], 5: [0, 1, 2, 3, 4]}
    assert (top_p(torch.zeros(4), 0.5) > -torch.inf).tolist() == [True, True, False, False]
    assert (min_p(torch.zeros(4), 1.0) > -torch.inf).all()
    assert greedy(z) == 1


def test_the_widest_and_the_narrowest_cuts() -> None:
    z = torch.randn(3, 5000, generator=torch.Generator().manual_seed(0)) * 3
    assert torch.equal(top_k(z, 5000), z)
    assert torch.equal(top_p(z, 1.0), z), "no possible token is dropped, however rounding falls"
    for y in (top_k(z, 1), top_p(z, 1e-12), min_p(z, 1.0)):
        assert ((y > -torch.inf).sum(-1) == 1).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_impossible_logits_stay_impossible(dtype: torch.dtype) -> None:
    z = torch.tensor([[0.0, -torch.inf, 1.0], [-torch.inf] * 3], dtype=dtype)
    ids = torch.tensor([[1], [1]])
    for y in (temperature(z, 0.5), top_k(z, 2), top_p(z, 1.0), min_p(z, 1e-9), repetition_penalty(z, ids, 1.5)):
        assert not y.isnan().any() and torch.equal(y == -torch.inf, z == -torch.inf)
    assert (top_k(z, 3) > -torch.inf).sum() == 2


def test_what_is_cut_off_gets_the_fill() -> None:
    z = torch.tensor([3.0, 1.0, 2.0])
    assert top_k(z, 1, fill=-1e9).tolist() == [3.0, -1e9, -1e9]
    assert top_p(z, 0.1, fill=-1e9).tolist() == [3.0, -1e9, -1e9]
    assert min_p(z, 0.9, fill=-1e9).tolist() == [3.0, -1e9, -1e9]


def test_gradients_pass_through_what_is_kept() -> None:
    z = torch.tensor([3.0, 1.0, 2.0], dtype=torch.float64)
    seed = torch.tensor([5.0, 6.0, 7.0], dtype=torch.float64)
    for cut, setting in ((top_k, 2), (top_p, 0.9), (min_p, 0.2)):
        with Tape() as tape:
            softmax(cut(z, setting))
        step = tape.steps[0]
        assert tape.reverse(seed, of=step.output)[z].tolist() == [5.0, 0.0, 7.0]
        assert tape.reverse(seed)[z].isfinite().all()


@CASES
@given(data=st.data())
def test_temperature_sharpens_and_flattens(data: st.DataObject) -> None:
    z = Draw(data).normal(3, 6)
    uncertain = [entropy(softmax(temperature(z, tau))) for tau in (0.2, 1.0, 5.0)]
    assert (uncertain[0] < uncertain[1]).all() and (uncertain[1] < uncertain[2]).all()
    assert torch.equal(temperature(z, 1.0), z)


@CASES
@given(data=st.data())
def test_a_penalty_lowers_what_was_seen_and_nothing_else(data: st.DataObject) -> None:
    draw = Draw(data)
    z, ids = draw.normal(3, 8), draw.below(8, 3, 4)
    y = repetition_penalty(z, ids, 1.3)
    seen = torch.zeros(3, 8, dtype=torch.bool).scatter(1, ids, True)
    assert (y[seen] < z[seen]).all() and torch.equal(y[~seen], z[~seen])
    assert_close(repetition_penalty(z, ids.repeat(1, 3), 1.3), y)
    assert torch.equal(repetition_penalty(z, ids, 1.0), z)
    assert torch.equal(repetition_penalty(z, ids[:, :0], 1.3), z)
    assert torch.equal(repetition_penalty(z, ids.int(), 1.3), y)


def test_samples_come_as_often_as_their_probabilities_say() -> None:
    p = torch.tensor([0.5, 0.3, 0.2, 0.0], dtype=torch.float64)
    drawn = sample(p.expand(50_000, 4), torch.Generator().manual_seed(0))
    found = torch.bincount(drawn, minlength=4) / 50_000
    assert found[3] == 0
    for frequency, wanted in zip(found.tolist(), p.tolist(), strict=True):
        assert frequency == pytest.approx(wanted, abs=5 * math.sqrt(wanted * (1 - wanted) / 50_000))


@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 3, 7)])
def test_sampling_keeps_leading_axes_and_repeats_by_generator(shape: tuple[int, ...]) -> None:
    p = softmax(torch.randn(shape, generator=torch.Generator().manual_seed(0)))
    ids = sample(p, torch.Generator().manual_seed(5))
    assert ids.shape == shape[:-1] and ids.dtype == torch.int64
    assert torch.equal(ids, sample(p, torch.Generator().manual_seed(5)))
    with Tape() as tape:
        recorded = sample(p, torch.Generator().manual_seed(5))
    assert torch.equal(recorded, ids) and torch.equal(tape.replay(), ids)


def test_length_penalty_of_google_s_translator() -> None:
    assert length_penalty(1, 0.6) == 1 and length_penalty(40, 0.0) == 1
    assert length_penalty(7, 1.0) == 2
    assert length_penalty(25, 0.6) == pytest.approx(30**0.6 / 6**0.6)


Z = torch.zeros(2, 3)
BAD_SCORES = [torch.tensor([0.0, torch.nan]), torch.tensor([0.0, torch.inf])]


@pytest.mark.parametrize(
    ("equation", "more"),
    [(temperature, (1.0,)), (top_k, (1,)), (top_p, (0.5,)), (min_p, (0.5,)), (greedy, ())],
    ids=lambda value: getattr(value, "name", ""),
)
def test_bad_logits_are_named(equation: Equation[..., Tensor], more: tuple) -> None:
    for bad in BAD_SCORES:
        with pytest.raises(EquationError, match=f"^{equation.name}: z is NaN or infinite in some entries"):
            equation(bad, *more)
    with pytest.raises(EquationError, match=rf"^{equation.name}: z is of shape \[2, 0\], wanted at least one logit"):
        equation(torch.zeros(2, 0), *more)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: temperature(Z, 0.0), "temperature: tau is 0.0, wanted a number above zero"),
        (lambda: temperature(Z, -1.0), "temperature: tau is -1.0"),
        (lambda: temperature(Z, math.nan), "temperature: tau is nan"),
        (lambda: top_k(Z, 0), "top_k: k is 0, wanted a whole number, at least 1"),
        (lambda: top_k(Z, 4), "top_k: k is 4, wanted from 1 to 3, the size of the vocabulary"),
        (lambda: top_k(Z, 1.5), "top_k: k is 1.5"),
        (lambda: top_p(Z, 0.0), "top_p: p is 0.0, wanted a probability above 0 and up to 1"),
        (lambda: top_p(Z, 1.1), "top_p: p is 1.1"),
        (lambda: top_p(Z, "0.9"), "top_p: p is '0.9'"),
        (lambda: min_p(Z, 0.0), "min_p: p is 0.0"),
        (lambda: min_p(Z, -0.5), "min_p: p is -0.5"),
        (
            lambda: repetition_penalty(Z, torch.tensor([[0], [3]]), 1.2),
            r"repetition_penalty: ids is \[3\] in some entries",
        ),
        (
            lambda: repetition_penalty(Z, torch.tensor([[-1], [0]]), 1.2),
            r"repetition_penalty: ids is \[-1\] in some entries",
        ),
        (lambda: repetition_penalty(Z, torch.tensor([0]), 1.2), r"repetition_penalty: ids has shape \[1\]"),
        (lambda: repetition_penalty(Z, torch.zeros(2, 1), 1.2), "repetition_penalty: ids has type float32, wanted int"),
        (lambda: repetition_penalty(Z, torch.zeros(2, 1).long(), 0.0), "repetition_penalty: penalty is 0.0"),
        (lambda: sample(torch.tensor([0.5, 0.6])), "sample: p is distributions that sum to"),
        (lambda: sample(torch.tensor([1.5, -0.5])), "sample: p is negative or NaN in some entries"),
        (lambda: sample(torch.ones(2, 0)), r"sample: p is of shape \[2, 0\]"),
        (lambda: length_penalty(-1, 0.6), "length_penalty: length is -1"),
    ],
)
def test_bad_settings_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(EquationError, match=f"^{message}"):
        call()


def test_many_tokens_are_suppressed_in_little_memory() -> None:
    """As many as a vocabulary has beyond those of a tokenizer; one comparison of each with each would take 2 GB."""
    z, ids = torch.zeros(1, 50_000), torch.arange(300, 50_000)
    with MemoryMeter() as meter:
        y = suppress_tokens.kernel(z, ids)
    assert meter.peak < 5_000_000
    assert y[0, :300].isfinite().all() and (y[0, 300:] == -math.inf).all()


def test_ids_outside_of_the_vocabulary_suppress_nothing() -> None:
    kept = suppress_tokens.kernel(torch.zeros(4), torch.tensor([1, 4, -1, 99]))  # as decoding calls it, without checks
    assert_close(kept, torch.tensor([0, -math.inf, 0, 0]))
