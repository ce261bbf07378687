"""A recurrent model is trained, resumed, evaluated and asked like any other language model."""

import json
from pathlib import Path

import pytest
import torch

from glassformer.cli.main import main
from glassformer.course.copy_task import CopyTask, contestants, fresh, gradient_by_position, training
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import build
from glassformer.models.rnn import RNN, RNNConfig
from glassformer.training.config import resolve
from glassformer.training.evaluate import evaluate
from glassformer.training.objective import LossModule
from glassformer.training.registry import TASKS, families
from glassformer.training.run import prepare_task, train_task
from glassformer.training.step import compile_loss_module

QUICK = {
    "recipe.steps": 12,
    "recipe.save_every": 4,
    "recipe.log_every": 2,
    "run.device": "cpu",
    "run.precision": "float32",
}
SMALL = {"model.family": "rnn", "model.dim": 16, "model.hidden_dim": 16, "data.max_length": 16, "data.batch_size": 4}


@pytest.mark.parametrize("cell", ["rnn", "lstm"])
def test_it_is_trained_resumed_to_the_bit_and_asked(
    cell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text("to be or not to be that is the question\n" * 30)
    settings = {**QUICK, **SMALL, "model.cell": cell, "data.path": str(tmp_path / "text.txt")}
    settings |= {"tokenizer.kind": "characters"}
    whole = train_task("gpt", settings, out=tmp_path / "whole")
    for log in prepare_task("gpt", settings, out=tmp_path / "stopped").train():
        if log.step >= 6:
            break
    train_task(out=tmp_path / "stopped", resume=True)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "stopped")]
    assert weights[0] == weights[1]
    assert evaluate(tmp_path / "whole") == whole.evaluate()
    assert main(["generate", str(tmp_path / "whole"), "to", "--max-new-tokens", "300", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["texts"]
    assert found["finish_reason"] in ("length", "stop"), "no context ends the text"


def test_settings_of_a_recurrent_model() -> None:
    assert families("gpt") == ("gpt", "llama", "modern", "rnn")
    config = resolve("gpt", words=["model.family=rnn"]).settings.model
    assert isinstance(config, RNNConfig) and (config.layers, config.dim) == (1, 128)
    config = resolve("gpt", preset="rnn").settings.model
    assert isinstance(config, RNNConfig) and config.cell == "rnn"


def test_it_is_not_compiled() -> None:
    loss_module = LossModule(build(RNNConfig(vocab=5)), TASKS["gpt"].objective)
    compile_loss_module(loss_module)
    assert loss_module._compiled_call_impl is None


def test_an_lstm_starts_by_remembering() -> None:
    model = build(RNNConfig(vocab=5, dim=4, hidden_dim=3))
    assert isinstance(model, RNN)
    assert model.cells[0].input.bias.tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0]


def test_the_copy_task_asks_for_what_was_read() -> None:
    task = CopyTask(gap=3, symbols=5, remembered=2)
    ids, symbols = task.batch(4, torch.Generator().manual_seed(0))
    assert ids.shape == (4, task.length) == (4, 7)
    assert torch.equal(ids[:, :2], symbols) and torch.equal(ids[:, -1], symbols[:, 0])
    assert (ids[:, 2:5] == 5).all() and (ids[:, 5] == 6).all()
    sizes = {name: build(config, device="meta").parameter_count() for name, config in contestants(task).items()}
    assert max(sizes.values()) < 1.03 * min(sizes.values()), "of equal size"


def test_more_gradient_reaches_the_first_position_of_a_transformer() -> None:
    task = CopyTask(gap=80, symbols=4, remembered=1)
    configs = (
        RNNConfig(vocab=task.vocab, dim=8, hidden_dim=16, cell="rnn"),
        GPTConfig(vocab=task.vocab, context=task.length, dim=16, layers=1, heads=1),
    )
    norms = [gradient_by_position(fresh(config, 1, torch.float64), task) for config in configs]
    recurrent, direct = (float(norm[0] / norm[-1]) for norm in norms)
    assert recurrent < 1e-5 and 1e-4 < direct < 1


def test_a_transformer_learns_the_copy_task() -> None:
    task = CopyTask(gap=2, symbols=4, remembered=1)
    model = fresh(GPTConfig(vocab=task.vocab, context=task.length, dim=16, layers=1, heads=1), 1)
    losses = list(training(model, task, 80, 0.01, rows=16, seed=1))
    assert losses[-1] < 0.2 * losses[0] and task.accuracy(model) > 0.95
