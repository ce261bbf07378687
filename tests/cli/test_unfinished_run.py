"""A run that was stopped: every command and `gf.load` use its best or latest checkpoint, and say which."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import glassformer as gf
from glassformer.checkpoints.run_checkpoints import AVERAGE
from glassformer.cli.main import main
from glassformer.errors import InterruptedRunError, PathError, RunFolderWarning
from glassformer.training.run_folder import RunFolder
from glassformer.training.step import Log

SMALL = {
    "model.dim": 8, "model.layers": 1, "model.heads": 2, "model.context": 16, "data.max_length": 8,
    "data.batch_size": 4, "tokenizer.kind": "characters", "run.device": "cpu", "recipe.warmup_steps": 1,
    "recipe.save_every": 2, "run.keep_checkpoints": 3, "recipe.evaluate_every": 2, "recipe.steps": 100,
}  # fmt: skip
STOPPED = pytest.mark.filterwarnings("default::glassformer.errors.RunFolderWarning")


def stopped(task: str, asked: dict[str, object], folder: Path) -> Path:
    """A run that was stopped at step 6."""

    def watch(log: Log) -> None:
        if log.step == 6:
            raise InterruptedRunError("stopped", 130)

    with pytest.raises(InterruptedRunError):
        gf.train(task, {**asked, "recipe.log_every": 1}, out=folder, watch=watch)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model, one with a moving average, and a classifier, all of them stopped."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLASSFORMER_CACHE", str(folder / "cache"))
        (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 20)
        (folder / "texts.tsv").write_text("".join(f"{label}\t{label} text {n}\n" for label in "ba" for n in range(9)))
        text = {**SMALL, "data.path": str(folder / "text.txt")}
        stopped("gpt", text, folder / "gpt")
        stopped("gpt", {**text, "recipe.ema_decay": 0.5}, folder / "averaged")
        classes = {key: value for key, value in SMALL.items() if key != "data.max_length"}
        stopped(
            "classify", {**classes, "data.path": str(folder / "texts.tsv"), "data.max_length": 8}, folder / "classes"
        )
    return folder


def weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return dict(model.named_parameters())


def test_the_best_checkpoint_is_taken_or_the_one_asked_for(runs: Path) -> None:
    folder = RunFolder(runs / "gpt")
    best, steps = folder.best_step(), folder.steps()
    with pytest.warns(RunFolderWarning, match=f"the run is not finished; using its best checkpoint, step {best} "):
        loaded = gf.load(runs / "gpt")
    assert loaded.tokenizer is not None
    for step, found in ((best, loaded), *((step, gf.load(runs / "gpt", step=step)) for step in steps)):
        for name, weight in weights(found.model).items():
            assert torch.equal(weight, folder.load(step).model[name])
    with pytest.raises(PathError, match=r"gpt: holds no checkpoint of step 5; there are: \d"):
        gf.load(runs / "gpt", step=5)
    with pytest.raises(PathError, match="is a file, and step 2 was asked for"):
        gf.load(runs / "gpt" / "tokenizer.json", step=2)


def test_the_moving_average_takes_the_place_of_the_weights(runs: Path) -> None:
    folder = RunFolder(runs / "averaged")
    step = folder.steps()[-1]
    kept = load_file(runs / "averaged" / f"step-{step:08d}" / "optimizer.safetensors")
    for name, weight in weights(gf.load(runs / "averaged", step=step).model).items():
        assert torch.equal(weight, kept[AVERAGE + name])
        assert not torch.equal(weight, folder.load(step).model[name])


def test_a_damaged_checkpoint_is_passed_over(runs: Path, tmp_path: Path) -> None:
    run = shutil.copytree(runs / "gpt", tmp_path / "run")
    folder = RunFolder(run)
    best, steps = folder.best_step(), folder.steps()
    path = run / f"step-{best:08d}" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    left = [step for step in steps if step != best]
    with pytest.warns(RunFolderWarning) as said:
        loaded = gf.load(run)
    assert "model.safetensors: was altered" in str(said[0].message)
    assert f"using its latest checkpoint, step {left[-1]} " in str(said[-1].message)
    name, weight = next(iter(weights(loaded.model).items()))
    assert torch.equal(weight, folder.load(left[-1]).model[name])
    (run / "best.json").write_text("{}")
    with pytest.warns(RunFolderWarning) as said:
        gf.load(run)
    assert "using its latest checkpoint" in str(said[-1].message)
    for step in steps:
        shutil.rmtree(run / f"step-{step:08d}")
    with pytest.raises(PathError, match="holds a run without a whole checkpoint yet; continue it with: glassformer"):
        gf.load(run)


@STOPPED
def test_a_finished_run_that_goes_on_is_not_read_as_it_was(runs: Path, tmp_path: Path) -> None:
    """The model of the earlier end is still there, and older than the checkpoints."""
    path = tmp_path / "run"
    settings = {**SMALL, "data.path": str(runs / "text.txt"), "recipe.steps": 4, "recipe.log_every": 1}
    gf.train("gpt", settings, out=path)
    before = weights(gf.load(path).model)  # a warning would be an error here

    def watch(log: Log) -> None:
        if log.step == 8:
            raise InterruptedRunError("stopped", 130)

    more = {**settings, "recipe.steps": 100}
    with pytest.raises(InterruptedRunError):
        gf.train("gpt", more, out=path, resume=True, watch=watch)
    best = RunFolder(path).best_step()
    assert best is not None and best > 4 and (path / "model.safetensors").exists()
    with pytest.warns(RunFolderWarning, match=f"the run is not finished; using its best checkpoint, step {best} "):
        now = weights(gf.load(path).model)
    assert not all(torch.equal(weight, before[name]) for name, weight in now.items())
    gf.train("gpt", more, out=path, resume=True)
    gf.load(path)  # it has ended again: no warning


COMMANDS = {
    "generate": ["generate", "gpt", "the", "--max-new-tokens", "2"],
    "evaluate": ["evaluate", "gpt", "--data", "text.txt"],
    "evaluate classes": ["evaluate", "classes", "--data", "texts.tsv"],
    "trace": ["trace", "gpt", "the fox", "--equation", "softmax"],
    "convert": ["convert", "gpt", "copy"],
}


@STOPPED
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_uses_a_stopped_run_and_says_so(
    command: str, runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(runs)
    shutil.rmtree("copy", ignore_errors=True)
    assert main(COMMANDS[command]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "checkpoint" in line]
    assert len(said) == 1 and said[0].startswith("glassformer: warning: ") and "using its best checkpoint" in said[0]
    shutil.rmtree("copy", ignore_errors=True)
    assert main([*COMMANDS[command], "--step", "4"]) == 0
    assert "checkpoint" not in capsys.readouterr().err
    shutil.rmtree("copy", ignore_errors=True)
    assert main([*COMMANDS[command], "--step", "5"]) == 2
    assert "holds no checkpoint of step 5; there are: " in capsys.readouterr().err


def test_parity_and_labels(runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    monkeypatch.chdir(runs)
    assert main(["parity", "gpt", "--step", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["first_divergence"] is None
    assert gf.load("classes", step=4).labels == ("a", "b")


def test_a_finished_run_has_its_steps_too(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(runs / "cache"))
    text = {**SMALL, "data.path": str(runs / "text.txt"), "recipe.steps": 4}
    run = gf.train("gpt", text, out=tmp_path / "run")
    last = gf.load(tmp_path / "run", step=4)
    for name, weight in weights(gf.load(tmp_path / "run").model).items():
        assert torch.equal(weight, weights(run.model)[name])
        assert weights(last.model)[name].shape == weight.shape
