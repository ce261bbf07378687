"""`glassformer config`: what it shows can be kept, read back and traced."""

import json
import tomllib
from pathlib import Path

import pytest

from glassformer.cli.main import main
from glassformer.cli.task_names import TASK_NAMES
from glassformer.training.config import resolve
from glassformer.training.registry import TASKS, defaults, values_of


@pytest.mark.parametrize("task", TASKS)
def test_it_shows_every_key_and_where_its_value_is_from(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", task]) == 0
    text = capsys.readouterr().out
    lines = [line for line in text.splitlines() if line and not line.startswith(("task", "[", "#"))]
    assert len(lines) == len(values_of(defaults(task)))
    explained = [line for line in text.splitlines() if line.startswith("# ")]
    assert len(explained) == len(lines) and all(" Accepts " in line for line in explained)
    assert all(line.endswith("  # default") for line in lines)
    assert tomllib.loads(text)["task"] == task


def test_what_it_shows_can_be_given_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["recipe.steps=500", "recipe.betas=[0.8, 0.95]", 'data.path=a "b" # c']
    assert main(["config", "gpt", *words, "--preset", "llama-3.1-8b"]) == 0
    file = tmp_path / "kept.toml"
    file.write_text(capsys.readouterr().out)
    assert resolve(file=file).settings == resolve("gpt", "llama-3.1-8b", words=words).settings
    assert main(["config", "--config", str(file), "recipe.seed=4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["config"]["task"] == "gpt"
    assert found["config"]["model"]["rope_scaling"]["kind"] == "llama3"
    assert found["config"]["recipe"]["betas"] == [0.8, 0.95]
    assert found["origins"]["recipe.seed"] == "command line"
    assert found["origins"]["recipe.steps"] == str(file)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no task is named"),
        (["gtp"], "did you mean gpt?"),
        (["gpt", "model.dims=3"], "did you mean model.dim (a whole number, 1 or more)?"),
        (["gpt", "model.dim=12.5"], "command line: model.dim is 12.5, wanted a whole number, 1 or more"),
        (["gpt", "masked"], "there is no key masked in gpt"),
        (["gpt", "recipe.stepz"], "did you mean recipe.steps (a whole number, 1 or more)?"),
        (["gpt", "recipe.rate"], "unknown setting recipe.rate: it is now recipe.learning_rate"),
        (["gpt", "data.target_path"], "there is no key data.target_path in gpt"),
        (["gpt", "model.vocab"], "model.vocab cannot be set, it follows from the tokenizer"),
        (["gpt", "--preset", "t5-small"], "preset t5-small is not a model for gpt; those that fit: gpt2"),
        (["gpt", "--config", "missing.toml"], "missing.toml: cannot be read: No such file"),
        (
            ["translate", "recipe.steps=10", "recipe.warmup_steps=10"],
            "recipe: warmup_steps is 10, wanted less than steps",
        ),
    ],
)
def test_mistakes_are_bad_use(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert said in err


def test_it_explains_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "gpt", "recipe.betas", "recipe.betas=0.8,0.9"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "recipe.betas = [0.8, 0.9] (command line)",
        "Decay of Adam's two moments; the first is momentum's β, the second RMSProp's ρ.",
        "accepts: a list of 2, each a number from 0 to just below 1",
        "default: [0.9, 0.98]",
        "example: recipe.betas=0.9,0.95",
    ]
    assert main(["config", "gpt", "model.kv_heads", "model.rope_scaling", "--json"]) == 0
    heads, scaling = json.loads(capsys.readouterr().out)
    assert heads["only_where"] == "model.family is llama or modern"
    assert scaling["example"] == "'model.rope_scaling={kind = \"linear\", factor = 2.0}'"


def test_help_names_every_task() -> None:
    assert TASK_NAMES.split(", ") == sorted(TASKS)
