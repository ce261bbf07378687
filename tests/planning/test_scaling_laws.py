"""Published laws against the models that their papers trained, and the best size against a search."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.equations.scaling import training_flops
from glassformer.errors import ConfigError
from glassformer.planning.scaling_laws import LAWS, budget_flops, flops_of, scaling_law

GOPHER = 5.76e23  # operations, which Chinchilla was given too


def test_the_budget_of_gopher_trains_chinchilla() -> None:
    """Hoffmann et al. trained 70B parameters on 1.4T tokens; the corrected law agrees, the printed one does not."""
    best = scaling_law("besiroglu").best(GOPHER)
    assert best.parameters == pytest.approx(70e9, rel=0.1)
    assert best.tokens == pytest.approx(1.4e12, rel=0.1)
    assert best.tokens_per_parameter == pytest.approx(20, rel=0.2)
    printed = scaling_law("hoffmann").best(GOPHER)
    assert printed.parameters < 0.65 * 70e9 and printed.tokens_per_parameter > 50


def test_chinchilla_is_predicted_to_beat_gopher() -> None:
    for law in LAWS.values():
        assert law.given(70e9, 1.4e12).loss < law.given(280e9, 300e9).loss


@settings(max_examples=50, deadline=None)
@given(exponent=st.floats(17, 27), name=st.sampled_from(sorted(LAWS)))
def test_no_other_division_of_the_budget_is_better(exponent: float, name: str) -> None:
    flops, law = 10**exponent, LAWS[name]
    best = law.best(flops)
    assert training_flops(best.parameters, best.tokens) == pytest.approx(flops)
    assert best.loss == pytest.approx(min(law.loss(best.parameters * 1.05**k, best.tokens / 1.05**k)
                                          for k in range(-40, 41)))  # fmt: skip


def test_hours_become_operations() -> None:
    assert flops_of(2.0, 1e15, devices=8, utilization=0.5) == 2 * 3600 * 8 * 1e15 / 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0.0, 1e15, 1, 0.5), "hours is 0"),
        ((1.0, -1.0, 1, 0.5), "flops_per_second is -1"),
        ((1.0, 1e15, 0, 0.5), "devices is 0"),
        ((1.0, 1e15, 1, 1.5), "utilization is 1.5"),
    ],
)
def test_bad_budgets_are_named(arguments: tuple[float, float, int, float], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        flops_of(*arguments)


def test_an_unknown_law_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="there is no scaling law 'hofmann'; did you mean hoffmann"):
        scaling_law("hofmann")


@pytest.mark.parametrize(
    ("budget", "flops"),
    [("6e21", 6e21), ("1000", 1000.0), ("2h", 2 * 3600 * 4e14), ("1.5 d", 36 * 3600 * 4e14), ("30m", 1800 * 4e14)],
)
def test_a_budget_is_operations_or_a_time(budget: str, flops: float) -> None:
    assert budget_flops(budget, 1e15, utilization=0.4) == pytest.approx(flops)


@pytest.mark.parametrize("budget", ["", "0", "-1", "nan", "1e999", "3w", "h", "ten"])
def test_other_budgets_are_named(budget: str) -> None:
    with pytest.raises(ConfigError, match="wanted operations such as 6e21, or a time such as 30m, 12h or 3d"):
        budget_flops(budget, 1e15)
