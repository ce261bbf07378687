"""Points of a law come from finished runs alone; every other folder is left out, with the reason."""

import json
from pathlib import Path

import pytest

from glassformer.checkpoints.native import native_config
from glassformer.checkpoints.run_checkpoints import MODEL_CONFIG
from glassformer.errors import FitError
from glassformer.models.registry import build
from glassformer.planning.non_embedding import parameters_without_embeddings
from glassformer.planning.training_runs import finished_runs
from glassformer.training.config import resolve, to_toml
from glassformer.training.recorded_run import CONFIG
from glassformer.training.run import train_task
from glassformer.training.run_folder import LOG

SMALL = {"dim": 32, "layers": 2, "heads": 2, "context": 16, "ffn_dim": 128}


def run_folder(
    folder: Path, *words: str, task: str = "gpt", step: int = 600, validation: float | None = 3.0, vocab: int = 500
) -> Path:
    """What a run leaves behind, without training it."""
    folder.mkdir(parents=True)
    sizes = [f"model.{name}={value}" for name, value in SMALL.items()] if task == "gpt" else []
    resolved = resolve(task, words=[*sizes, "data.max_length=16", *words])
    config = resolved.settings.model
    (folder / CONFIG).write_text(to_toml(resolved))
    table = native_config(config, None) | {"vocab": vocab}
    (folder / MODEL_CONFIG).write_text(json.dumps(table))
    lines = [
        {"step": step // 2, "loss": 4.0, "tokens": 1000, "validation": None},
        {"step": step, "loss": 3.1, "tokens": 2000, "validation": validation},
    ]
    (folder / LOG).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_a_finished_run_is_a_point(tmp_path: Path) -> None:
    found = finished_runs([run_folder(tmp_path / "one")])
    (run,) = found.runs
    assert (run.tokens, run.loss, run.name) == (2000, 3.0, str(tmp_path / "one"))
    dim, layers, ffn = SMALL["dim"], SMALL["layers"], SMALL["ffn_dim"]
    block = 4 * dim**2 + 4 * dim + 2 * dim * ffn + ffn + dim + 4 * dim
    assert run.parameters == layers * block + 2 * dim
    assert found.words == "1 finished run read"


def test_a_run_that_was_really_trained_is_a_point(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("All happy families are alike; each unhappy family is unhappy in its own way. " * 60)
    settings = {f"model.{name}": value for name, value in SMALL.items()} | {
        "data.path": str(text), "data.max_length": 16, "data.batch_size": 4, "recipe.steps": 3, "run.device": "cpu",
        "tokenizer.vocab_size": 300, "recipe.warmup_steps": 1,
    }  # fmt: skip
    run = train_task("gpt", settings, out=tmp_path / "run", size="tiny")
    (point,) = finished_runs([tmp_path / "run"]).runs
    assert point.parameters == parameters_without_embeddings(run.model)
    assert (point.tokens, point.loss) == (3 * 4 * 16, run.logs[-1].validation)


@pytest.mark.parametrize(
    ("words", "changes", "why"),
    [
        ((), {"step": 300}, "ended at step 300 of 600: before its last step a run's learning rate has not decayed"),
        ((), {"validation": None}, "its last step has no validation loss"),
        (("run.init=elsewhere",), {}, "began from elsewhere"),
        ((), {"task": "skip-gram"}, "a run of skip-gram; scaling laws are for running text"),
    ],
)
def test_other_runs_are_left_out_with_the_reason(
    words: tuple[str, ...], changes: dict[str, object], why: str, tmp_path: Path
) -> None:
    good, other = run_folder(tmp_path / "good"), tmp_path / "other"
    task = str(changes.get("task", "gpt"))
    if task == "gpt":
        run_folder(other, *words, **changes)  # type: ignore[arg-type]
    else:
        other.mkdir()
        (other / CONFIG).write_text(to_toml(resolve(task)))
        (other / MODEL_CONFIG).write_text(json.dumps(native_config(resolve(task).settings.model, None)))
    found = finished_runs([good, other])
    assert len(found.runs) == 1 and found.skipped[str(other)].startswith(why)
    assert "1 finished run read, 1 left out:" in found.words and why in found.words


def test_folders_without_a_run_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    broken = run_folder(tmp_path / "broken")
    (broken / MODEL_CONFIG).write_text("{")
    unlogged = run_folder(tmp_path / "unlogged")
    (unlogged / LOG).unlink()
    found = finished_runs([tmp_path / "empty", tmp_path / "none", broken, unlogged])
    assert not found.runs
    reasons = [found.skipped[str(tmp_path / name)] for name in ("empty", "none", "broken", "unlogged")]
    assert "there is no config.toml" in reasons[0] and "there is no config.toml" in reasons[1]
    assert "model.json" in reasons[2] and reasons[3].startswith("ended at step 0 of 600")


def test_runs_with_other_vocabularies_cannot_be_compared(tmp_path: Path) -> None:
    one, other = run_folder(tmp_path / "one"), run_folder(tmp_path / "two", vocab=600)
    with pytest.raises(FitError, match=r"one is a run of gpt with a vocabulary of 500, and .*two is .* of 600"):
        finished_runs([one, other])


def test_a_separate_output_layer_is_left_out_too() -> None:
    tied, untied = (
        build(resolve("gpt", words=[f"model.tie_embeddings={tie}"]).settings.model, device="meta")
        for tie in ("true", "false")
    )
    assert untied.parameter_count() > tied.parameter_count()
    assert parameters_without_embeddings(untied) == parameters_without_embeddings(tied)
