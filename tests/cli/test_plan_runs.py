"""`glassformer plan` on whole runs: budgets, costs, fitted laws, what-ifs, and mistakes."""

import json
from pathlib import Path

import pytest

from glassformer.cli.main import main
from glassformer.equations.scaling import scaling_law_loss
from glassformer.planning.training_runs import finished_runs
from tests.planning.test_training_runs import run_folder

LAW = {"E": 1.8, "A": 480.0, "B": 2000.0, "alpha": 0.35, "beta": 0.37}


def folders_of_a_law(folder: Path) -> list[str]:
    """Nine run folders, three sizes on three amounts of data, with the losses of a law."""
    made = []
    for dim in (32, 64, 128):
        for tokens in (10**6, 10**7, 10**8):
            path = run_folder(folder / f"{dim}-{tokens}", f"model.dim={dim}", f"model.ffn_dim={4 * dim}")
            (run,) = finished_runs([path]).runs
            lines = path / "metrics.jsonl"
            last = json.loads(lines.read_text().splitlines()[-1])
            last |= {"tokens": tokens, "validation": scaling_law_loss(run.parameters, tokens, **LAW)}
            lines.write_text(json.dumps(last) + "\n")
            made.append(str(path))
    return made


def test_a_budget_needs_no_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--budget", "5.76e23", "--device", "h100"]) == 0
    assert "72.2B" in capsys.readouterr().out
    assert main(["plan", "--budget", "1d", "--device", "h100", "--devices", "8", "--json"]) == 0
    budget = json.loads(capsys.readouterr().out)["budget"]
    assert budget["flops"] == pytest.approx(86400 * 8 * 0.4 * 989.4e12)
    assert budget["laws"]["besiroglu"]["parameters"] > 1e9


def test_runs_are_fitted_and_a_larger_one_is_predicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs, chart = folders_of_a_law(tmp_path / "runs"), tmp_path / "law.svg"
    unfinished = run_folder(tmp_path / "runs" / "unfinished", step=300)
    assert main(["plan", "--fit", *runs, str(unfinished), "--law-svg", str(chart), "--budget", "1e15", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    fit = found["fit"]
    assert fit["law"] == "full" and len(fit["runs"]) == 9 and str(unfinished) in fit["skipped"]
    for name, value in LAW.items():
        assert fit["constants"][name]["value"] == pytest.approx(value, rel=0.02), name
    assert fit["best"]["parameters"]["value"] > 0 and "Loss against compute" in chart.read_text()


def test_a_model_gets_its_cost_its_predicted_loss_and_its_what_ifs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, settings = folders_of_a_law(tmp_path / "runs"), tmp_path / "larger.toml"
    settings.write_text(
        'task = "gpt"\n[model]\ndim = 64\nlayers = 3\nheads = 4\nffn_dim = 256\ncontext = 32\n[data]\nmax_length = 32\n'
    )
    words = ["plan", str(settings), "--device", "h100", "--tokens", "2e9", "--fit", *runs, "--what-if"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "training on 2B tokens, NVIDIA H100" in shown and "2B tokens, " in shown and "95% interval" in shown
    assert "half the width" in shown and "activation checkpointing" in shown


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "nothing to plan: give a preset"),
        (["--what-if", "--budget", "1e15"], "--what-if is about a model: name one"),
        (["--tokens", "1e9", "--budget", "1e15"], "--tokens is about a model: name one"),
        (["--budget", "soon", "--device", "h100"], "budget is 'soon', wanted operations such as 6e21, or a time"),
        (["--budget", "1e15", "--law-svg", "x.svg", "--device", "h100"], "--law-svg draws a fitted law"),
        (["--fit", "nowhere"], "no finished run to fit a law to"),
    ],
)
def test_mistakes_are_named(words: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *words]) == 2
    assert error in capsys.readouterr().err


def test_too_few_runs_say_how_many_it_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--fit", *folders_of_a_law(tmp_path)[:2]]) == 2
    assert "3 distinct sizes are needed, not 1" in capsys.readouterr().err
