"""The line after `train` that puts the speed of a run beside its plan."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.cli import train
from glassformer.errors import ConfigError
from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.plan import plan
from glassformer.training.run import Run, train_task
from glassformer.training.step import Log

HERE = DeviceSpec(name="here", kind="cpu", memory=8e9, bandwidth=1e10, peaks={"float32": 1e11})


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run of two steps, on a device that is described and not measured."""
    monkeypatch.setattr("glassformer.planning.devices.this_cpu", lambda: HERE)
    text = tmp_path / "text.txt"
    text.write_text("All happy families are alike; each unhappy family is unhappy in its own way. " * 60)
    settings = {
        "model.dim": 32, "model.layers": 2, "model.heads": 2, "model.context": 16, "data.path": str(text),
        "data.max_length": 16, "data.batch_size": 4, "recipe.steps": 2, "recipe.warmup_steps": 1, "run.device": "cpu",
        "run.precision": "float32", "tokenizer.vocab_size": 300,
    }  # fmt: skip
    return train_task("gpt", settings, out=tmp_path / "run", size="tiny")


def speeds(line: str) -> list[float]:
    found = re.fullmatch(r"plan: ([\d,]+) tokens/s planned, ([\d,]+) measured", line)
    assert found is not None, line
    return [float(number.replace(",", "")) for number in found.groups()]


def test_the_speed_is_beside_that_of_a_plan_of_the_largest_batch(run: Run) -> None:
    last = replace(run.logs[-1], speed=1234.4)
    found = plan(run.model.config, device=HERE, batch=4, length=16, dtype="float32")
    assert speeds(train._beside_plan(run, last)) == [round(found.time.tokens_per_second), 1234]


@pytest.mark.parametrize(("seconds", "said"), [(train.WORTH_A_PLAN, True), (train.WORTH_A_PLAN - 1, False)])
def test_only_a_run_that_took_its_time_is_put_beside_a_plan(
    run: Run, seconds: float, said: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    last: Log = replace(run.logs[-1], seconds=seconds)
    capsys.readouterr()
    train._report_end("gpt", run, tmp_path / "run", last, json=False)
    assert ("glassformer: plan: " in capsys.readouterr().err) == said


def test_the_plan_beside_a_run_with_lora_is_said_to_be_of_full_training(run: Run) -> None:
    run.settings = replace(run.settings, lora=replace(run.settings.lora, rank=2))
    assert train._beside_plan(run, run.logs[-1]).startswith("plan of full training, without LoRA: ")


@pytest.mark.parametrize("task", ["skip-gram", "regress"])
def test_a_run_without_tokens_has_a_plan_too(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("glassformer.planning.devices.this_cpu", lambda: HERE)
    (tmp_path / "text.txt").write_text("the cat sat on the mat and the dog sat on the log\n" * 30)
    words = {"data.path": str(tmp_path / "text.txt"), "data.subsample": 0.0, "data.validation_fraction": 0.2}
    data = words if task == "skip-gram" else {}
    steps = {"recipe.steps": 2, "recipe.warmup_steps": 1, "run.device": "cpu", "run.precision": "float32"}
    run = train_task(task, {**data, **steps}, out=tmp_path / "run", size="tiny")
    assert re.fullmatch(r"plan: [\d,]+ examples/s planned, [\d,]+ measured", train._beside_plan(run, run.logs[-1]))


def test_a_plan_that_cannot_be_made_does_not_fail_the_run(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(run: Run, last: Log) -> str:
        raise ConfigError("length is 1,000, wanted at most 512")

    monkeypatch.setattr(train, "_beside_plan", fails)
    train._report_end("gpt", run, tmp_path / "run", replace(run.logs[-1], seconds=train.WORTH_A_PLAN), json=False)
    said = capsys.readouterr().err
    assert "no plan stands beside this run: length is 1,000" in said and "next: " in said
