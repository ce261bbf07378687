"""A smoke test of every part, in seconds: `make quick` runs it."""

from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.cli.main import COMMANDS, main
from glassformer.course.registry import lessons
from tests.models.zoo import ZOO, specimen

SMALL: dict[str, object] = {
    "model.dim": 16, "model.layers": 1, "model.heads": 2, "model.context": 16, "tokenizer.kind": "characters",
    "recipe.steps": 4, "recipe.warmup_steps": 1, "recipe.log_every": 2, "recipe.evaluate_every": 2,
    "recipe.save_every": 2,
    "run.device": "cpu", "run.precision": "float32", "run.compile": "no",
}  # fmt: skip
TASKS: dict[str, tuple[str, dict[str, object]]] = {
    "gpt": ("the cat sat on the mat. " * 40, {"data.max_length": 8, "data.batch_size": 4}),
    "masked": ("the cat sat on the mat. " * 40, {"data.max_length": 8, "data.batch_size": 4}),
    "translate": ("".join(f"one {n}\tuno {n}\n" for n in range(40)), {"data.max_length": 12}),
    "classify": (
        "".join(f"{'ab'[n % 2]}\ttext {n}\n" for n in range(40)),
        {"data.max_length": 12, "data.batch_size": 4},
    ),
}


@pytest.mark.parametrize("name", ZOO)
def test_a_model_runs_and_its_tape_replays(name: str) -> None:
    case = specimen(name)
    with gf.tape() as tape:
        output = case()
    assert torch.equal(tape.replay(), output)


@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_trained_evaluated_and_saved(task: str, tmp_path: Path) -> None:
    content, settings = TASKS[task]
    data = tmp_path / ("data.txt" if task in ("gpt", "masked") else "data.tsv")
    data.write_text(content)
    run = gf.train(task, {**SMALL, **settings, "data.path": str(data)}, out=tmp_path / "run")
    assert next(run.model.parameters()).isfinite().all()
    assert gf.evaluate(tmp_path / "run", str(data)).loss > 0
    loaded = gf.load(tmp_path / "run")
    gf.save(loaded.model, tmp_path / "copy", loaded.tokenizer, loaded.labels)
    again = gf.load(tmp_path / "copy")
    for (key, value), other in zip(loaded.model.state_dict().items(), again.model.state_dict().values(), strict=True):
        assert torch.equal(value, other), key


def test_the_catalog_the_course_and_the_commands_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert gf.equations.softmax.cell((0,), torch.tensor([0.0, 0.0])).endswith("= 0.5")
    assert len(gf.catalog()) > 150 and len(lessons()) > 40 and len(gf.presets()) > 15
    assert main(["check", "--json"]) == 0
    assert main(["models", "gpt2"]) == 0
    for command in COMMANDS:
        assert main([command, "--help"]) == 0
    assert "temperature" in capsys.readouterr().out
