"""The tables of laws, budgets, costs and changes say what was computed."""

import pytest

from glassformer.cli.scaling_tables import write_budget, write_cost, write_fit, write_what_if
from glassformer.models.llama import LlamaConfig
from glassformer.planning.fit import fit
from glassformer.planning.training_cost import training_cost
from glassformer.planning.training_runs import FoundRuns
from glassformer.planning.what_if import what_if
from tests.planning.made_plans import made_plan
from tests.planning.test_fit import LAW, SIZES, sweep


def test_a_fit_shows_runs_constants_prediction_and_the_best_size(capsys: pytest.CaptureFixture[str]) -> None:
    runs = sweep(LAW, noise=0.003)
    found = FoundRuns(runs=tuple(runs), skipped={"runs/other": "ended at step 3 of 9"})
    write_fit(found, fit(runs), (1.4e7, 2e7), 1e16)
    shown = capsys.readouterr().out
    assert "16 finished runs read, 1 left out:" in shown and "runs/other: ended at step 3 of 9" in shown
    assert "L = E + A/N^α + B/D^β: size and data vary independently" in shown
    assert "14M parameters on 20M tokens, 6 times the compute of the largest run: loss 7.8" in shown
    assert "95% interval" in shown and "best for 1e16 operations" in shown


def test_a_reduced_law_says_so_and_gives_no_best_size(capsys: pytest.CaptureFixture[str]) -> None:
    runs = sweep(LAW, sizes=SIZES[:1])
    write_fit(FoundRuns(runs=tuple(runs), skipped={}), fit(runs), None, 1e16)
    shown = capsys.readouterr().out
    assert "it holds for this size only" in shown and "best for" not in shown


def test_a_budget_shows_both_published_laws(capsys: pytest.CaptureFixture[str]) -> None:
    write_budget(5.76e23)
    shown = capsys.readouterr().out
    for words in ("Besiroglu et al., 2024", "Hoffmann et al., 2022", "72.2B", "1.33T"):
        assert words in shown


def test_a_cost_names_its_assumptions(capsys: pytest.CaptureFixture[str]) -> None:
    write_cost(training_cost(made_plan(devices=2), 4000 * 7200 * 100))
    shown = capsys.readouterr().out
    assert "training on 2.88B tokens, 2 × a device" in shown and "PUE 1.1" in shown and "$200.00" in shown
    assert "2.1 days" in shown


def test_what_if_shows_each_change_beside_the_unchanged_model(capsys: pytest.CaptureFixture[str]) -> None:
    config = LlamaConfig(vocab=1000, context=64, dim=64, layers=4, heads=8, ffn_dim=128)
    plans = {64: made_plan(1000), 32: made_plan(500, peak=4000)}
    write_what_if(what_if(config, 64, lambda changed, length: plans[vars(changed)["dim"]]))
    shown = capsys.readouterr().out
    assert "half the width" in shown and "(-60%)" in shown.replace("−", "-")
