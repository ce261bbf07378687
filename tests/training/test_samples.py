"""Each validation shows what the model does with one example, in the log and on the screen."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.cli.main import main
from glassformer.cli.panel import panel
from glassformer.errors import DecodingError
from glassformer.training import samples
from glassformer.training.device import Device
from glassformer.training.recipe import Recipe
from glassformer.training.run_folder import LOG
from glassformer.training.step import Log

SMALL: dict[str, object] = {
    "tokenizer.kind": "words", "tokenizer.vocab_size": 60, "model.dim": 8, "model.layers": 1, "model.heads": 1,
    "model.ffn_dim": 16, "model.context": 16, "data.validation_fraction": 0.2, "recipe.steps": 6, "run.device": "cpu",
    "recipe.log_every": 2, "recipe.evaluate_every": 3, "recipe.save_every": 3,
}  # fmt: skip
DATA = {
    "gpt": ("a.txt", "one two three four five six seven eight nine ten\n" * 12),
    "masked": ("a.txt", "one two three four five six seven eight nine ten\n" * 12),
    "translate": ("a.tsv", "".join(f"one two {n}\tuno dos {n}\n" for n in range(20))),
    "classify": (
        "a.tsv",
        "".join(f"{'low' if n < 5 else 'high'}\tthe number {n} {m}\n" for n in range(10) for m in "ab"),
    ),
}
USE = {"gpt": "generate", "masked": "fill", "translate": "translate", "classify": "classify"}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> dict[str, object]:
    """A run of a few steps of the task."""
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    name, text = DATA[request.param]
    (tmp_path / name).write_text(text, encoding="utf-8")
    length = "data.max_length"
    return {**SMALL, length: 8, "data.path": str(tmp_path / name)}


@pytest.mark.parametrize(("settings", "task"), [(task, task) for task in DATA], indirect=["settings"])
def test_every_validation_has_a_sample(task: str, settings: dict[str, object], tmp_path: Path) -> None:
    run = gf.train(task, settings, out=tmp_path / "run")
    assert [log.sample is not None for log in run.logs] == [log.validation is not None for log in run.logs]
    lines = [json.loads(line) for line in (tmp_path / "run" / LOG).read_text(encoding="utf-8").splitlines()]
    assert [line["sample"] for line in lines] == [log.sample for log in run.logs]
    last = str(run.logs[-1].sample)
    shown = {"gpt": " → ", "masked": "[", "translate": " → ", "classify": "(right)" if "right" in last else "(wanted "}
    assert shown[task] in last
    again = gf.train(task, settings, out=tmp_path / "again")
    assert again.logs == run.logs


@pytest.mark.parametrize("settings", ["gpt"], indirect=True)
def test_a_sample_changes_no_number_and_its_failure_ends_no_run(
    settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = [(log.loss, log.validation) for log in gf.train("gpt", {**settings, "model.dropout": 0.2}).logs]

    def fails(self: samples.Sample, model: object) -> str:
        raise DecodingError("no text")

    monkeypatch.setattr(samples.Sample, "__call__", fails)
    logs = gf.train("gpt", {**settings, "model.dropout": 0.2}).logs
    assert [(log.loss, log.validation) for log in logs] == losses
    assert all(log.sample is None for log in logs)


def test_samples_on_a_gpu_take_a_small_part_of_the_steps_between_them() -> None:
    recipes = [replace(Recipe(), evaluate_every=steps) for steps in (1, 50, 100, 200, 500)]
    assert [samples.sample_tokens(each, Device()) for each in recipes] == [samples.CONTINUATION] * 5
    assert [samples.sample_tokens(each, Device(torch.device("cuda"))) for each in recipes] == [8, 10, 20, 40, 40]


@pytest.mark.parametrize("settings", ["gpt"], indirect=True)
def test_a_sample_is_as_long_as_it_may_be(settings: dict[str, object]) -> None:
    run = gf.train("gpt", settings)
    long, short = (samples.Sample(run.data, tokens)(run.model) for tokens in (12, 3))
    assert long is not None and short is not None
    assert long.startswith(short) and len(short) < len(long)
    assert len(short.split(samples.ARROW)[1].split()) <= 3


def test_lines_show_the_sample(capsys: pytest.CaptureFixture[str]) -> None:
    with panel(10, progress=False) as watcher:
        watcher.update(Log(5, 1.0, 1e-3, 1.0, 64, 1.1, sample="one\n → two\x1b[2J", seconds=1.0, speed=64.0))
    assert capsys.readouterr().err.splitlines()[1] == "glassformer: sample: one\\n → two\\x1b[2J"


@pytest.mark.parametrize(("settings", "task"), [(task, task) for task in DATA], indirect=["settings"])
def test_the_end_names_the_next_command_and_it_works(
    task: str, settings: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    words = [f"{key}={value}" for key, value in settings.items()]
    assert main(["train", task, *words, "--out", str(folder)]) == 0
    shown = capsys.readouterr()
    following = shown.err.splitlines()[-1]
    assert following.startswith(f"glassformer: next: glassformer {USE[task]} {folder} ")
    assert re.search(r"6 steps, loss .* s$", shown.out, re.MULTILINE)
    mask = gf.load(folder).required_tokenizer().roles["mask"]
    assert main([USE[task], str(folder), f"one {mask} three" if task == "masked" else "one two"]) == 0
