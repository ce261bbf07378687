"""`glassformer train`: folders, resuming, plans, mistakes, and the status it ends with."""

import io
import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from safetensors.torch import load_file

import glassformer as gf
from glassformer.cli.main import main
from glassformer.cli.report import run
from glassformer.errors import InterruptedRunError
from glassformer.training.config import resolve
from glassformer.training.registry import TASKS
from glassformer.training.run import Run

SMALL = (
    "tokenizer.kind=characters", "data.max_length=16", "data.batch_size=4", "model.context=16", "model.dim=8",
    "model.layers=1", "model.heads=2", "recipe.warmup_steps=1", "recipe.log_every=2", "recipe.evaluate_every=4",
    "recipe.save_every=4", "run.device=cpu", "run.precision=float32", "run.compile=no",
)  # fmt: skip


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with a text to learn from."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    Path("text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 40)
    return tmp_path


def train(*words: str, steps: int = 6) -> int:
    return main(["train", "gpt", "--data", "text.txt", *SMALL, f"recipe.steps={steps}", *words])


def files() -> set[Path]:
    return {path for path in Path().rglob("*") if "cache" not in path.parts}


def test_a_run_leaves_a_folder_that_repeats_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert train() == 0
    out, err = capsys.readouterr()
    assert "run folder: runs/gpt-1" in err
    assert "bits per byte" in out and "\nruns/gpt-1: 6 steps, loss " in out
    kept = {path.name for path in Path("runs/gpt-1").iterdir()}
    assert {"config.toml", "curves.svg", "metrics.jsonl", "tokenizer.json", "step-00000006"} <= kept
    assert "# command line" in Path("runs/gpt-1/config.toml").read_text()
    assert main(["train", "--config", "runs/gpt-1/config.toml", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "run folder: runs/gpt-2" in err
    figures = json.loads(out.splitlines()[-1])
    assert (figures["task"], figures["folder"], figures["step"]) == ("gpt", "runs/gpt-2", 6)
    logs = [Path(f"runs/gpt-{n}/metrics.jsonl").read_text() for n in (1, 2)]
    assert logs[0] == logs[1]
    assert figures["loss"] == json.loads(logs[1].splitlines()[-1])["loss"]


def test_losses_in_another_precision_than_the_table_are_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert train() == 0
    assert "bfloat16" not in capsys.readouterr().out
    assert train("run.precision=bfloat16") == 0
    assert "; the table is computed in float32, the losses in bfloat16" in capsys.readouterr().out


def stop_after(step: int, monkeypatch: pytest.MonkeyPatch, status: int = 130) -> None:
    """Make runs end at a step as a signal would end them."""
    whole = Run.train

    def train(self: Run, resume: bool = False) -> Iterator[object]:
        for log in whole(self, resume):
            yield log
            if log.step == step:
                raise InterruptedRunError(f"stopped after step {step}", status)

    monkeypatch.setattr(Run, "train", train)


@pytest.mark.parametrize("status", [130, 143])
def test_a_stopped_run_says_how_to_go_on(
    status: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        stop_after(4, patch, status)
        assert train("--out", "my run") == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].endswith("resume with: glassformer train --resume --out 'my run'")
    assert "Traceback" not in err
    assert main(["train", "--resume", "--out", "my run"]) == 0
    assert train("--out", "unbroken") == 0
    logs = [Path(folder, "metrics.jsonl").read_text() for folder in ("my run", "unbroken")]
    assert logs[0] == logs[1]


def test_data_that_changed_is_said_to_have_changed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        stop_after(4, patch)
        assert train("--out", "run") == 130
    Path("text.txt").write_text("the lazy dog\n" * 40)
    assert main(["train", "--resume", "--out", "run"]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert "the data has changed since the run began (tokens 1726, now 511): put it back" in said


def test_a_signal_ends_it_politely(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "gpt", "--data", "text.txt", *SMALL, "recipe.steps=1000000", "--out", "long", "--no-progress"]
    with subprocess.Popen([sys.executable, "-m", "glassformer", *words], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if "step 2 of" in line:
                process.send_signal(signal.SIGINT)
    assert process.returncode == 130
    assert "resume with: glassformer train --resume --out long" in said[-1]
    assert not any("Traceback" in line for line in said)
    assert list(Path("long").glob("step-*"))


def test_a_folder_with_a_run_is_not_begun_anew(capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--out", "run", steps=4) == 0
    before = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    capsys.readouterr()
    assert train("--out", "run", steps=4) == 2
    err = capsys.readouterr().err
    assert "run already holds a run: resume it, or choose another folder" in err.splitlines()[-1]
    assert {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()} == before


def test_a_folder_with_a_model_is_not_written_over(capsys: pytest.CaptureFixture[str]) -> None:
    Path("model").mkdir()
    Path("model/model.safetensors").write_text("precious")
    assert train("--out", "model", steps=4) == 2
    assert "model already holds a model, in model.safetensors: choose" in capsys.readouterr().err.splitlines()[-1]
    assert [path.read_text() for path in Path("model").iterdir()] == ["precious"]


def test_resuming_with_other_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--out", "run", steps=4) == 0
    begun = Path("run/config.toml").read_text()
    for words, keys in {
        ("recipe.seed=1", "--data", "other.txt"): "data.path, recipe.seed",
        ("--preset", "gpt2"): "model.context, model.dim, model.layers, model.heads",
        ("gpt", "run.keep_checkpoints=3", "run.device=auto"): "run.keep_checkpoints",
    }.items():
        capsys.readouterr()
        assert main(["train", "--resume", "--out", "run", *words]) == 2
        assert f"run was begun with another {keys}; resume it without" in capsys.readouterr().err
    assert main(["train", "masked", "--resume", "--out", "run"]) == 2
    assert 'task is "gpt", but masked was asked for' in capsys.readouterr().err
    assert main(["train", "masked", "--resume", "--out", "run", "--preset", "bert-base"]) == 2
    assert "run holds a run of gpt, not of masked" in capsys.readouterr().err
    assert train("--resume", "--out", "run", steps=4) == 0
    assert main(["train", "--config", "run/config.toml", "--resume", "--out", "run", "run.device=auto"]) == 0
    assert "run.device: not as the run was begun; it goes on" in capsys.readouterr().err
    assert Path("run/config.toml").read_text() == begun


def test_more_steps_when_resuming(capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--out", "run", "recipe.schedule=constant", steps=4) == 0
    assert train("--out", "whole", "recipe.schedule=constant", steps=8) == 0
    capsys.readouterr()
    assert main(["train", "--resume", "--out", "run", "recipe.steps=3"]) == 2
    assert "recipe.steps is 3, wanted at least 4, those the run was begun with" in capsys.readouterr().err
    assert main(["train", "--resume", "--out", "run", "recipe.steps=8"]) == 0
    assert "recipe.steps grows from 4 to 8" in capsys.readouterr().err
    weights = [load_file(Path(each, "model.safetensors")) for each in ("run", "whole")]
    assert all(weights[0][name].equal(weights[1][name]) for name in weights[1])
    assert resolve(file="run/config.toml").settings == resolve(file="whole/config.toml").settings
    assert main(["train", "--resume", "--out", "run"]) == 0
    assert "is already finished" in capsys.readouterr().err


def test_there_must_be_something_to_resume(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--resume"]) == 2
    assert "give --out FOLDER" in capsys.readouterr().err
    assert main(["train", "--resume", "--out", "nowhere"]) == 2
    assert "nowhere holds no run to resume" in capsys.readouterr().err


def test_a_finished_run_has_nothing_left(capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--out", "run", steps=4) == 0
    capsys.readouterr()
    assert main(["train", "--resume", "--out", "run"]) == 0
    assert "is already finished" in capsys.readouterr().err
    assert main(["train", "--resume", "--out", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["folder"] == "run"


def test_a_dry_run_shows_and_keeps_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    before = files()
    assert train("--dry-run") == 0
    text = capsys.readouterr().out
    assert files() == before
    shown = dict(line[2:].split(": ") for line in text.splitlines() if line.startswith("# "))
    assert shown["tokens per step"] == "64"
    assert list(shown) == [
        "device", "parameters", "tokens per step", "weights", "gradients", "optimizer", "activations", "overhead",
        "memory", "time", "checkpoint", "disk",
    ]  # fmt: skip
    Path("plan.toml").write_text(text)
    words = ["data.path=text.txt", *SMALL, "recipe.steps=6"]
    assert resolve(file="plan.toml").settings == resolve("gpt", words=words).settings
    assert tomllib.loads(text)["recipe"]["steps"] == 6


def test_a_plan_is_what_is_then_done(capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--dry-run", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert train("--out", "run") == 0
    stored = [load_file(path) for path in Path("run/step-00000006").glob("*.safetensors")]
    size = sum(tensor.nbytes for tensors in stored for tensor in tensors.values())
    assert plan["checkpoint_bytes"] == pytest.approx(size, rel=0.01)  # each weight has its own count of steps too
    assert plan["disk_bytes"] > 3 * plan["checkpoint_bytes"]
    assert plan["weights_bytes"] == plan["gradients_bytes"] == 4 * plan["parameters"]
    parts = ("weights", "gradients", "optimizer", "activations", "overhead")
    assert plan["memory_bytes"] == sum(plan[f"{part}_bytes"] for part in parts)
    assert "parameters, about " in capsys.readouterr().err
    assert plan["origins"]["model.dim"] == "command line"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gpt", "recipe.stepz=3"], "did you mean recipe.steps (a whole number, 1 or more)?"),
        (["gpt", "model.dim=12.5"], "command line: model.dim is 12.5, wanted a whole number, 1 or more"),
        (["gpt", "--preset", "t5-small"], "those that fit: gpt2"),
        (["gpt", "--config", "missing.toml"], "missing.toml: cannot be read"),
        (["gpt", "--data", "missing.txt"], 'data.path is "missing.txt", but there is no such file or folder'),
        (["gpt", "--init", "missing"], 'run.init is "missing", but there is no such file or folder'),
        (["gpt", "--data", "text.txt", "data.path=missing.txt"], 'data.path is "missing.txt", but there is no such'),
        (["masked", "--target-path", "text.txt"], "there is no key data.target_path in masked"),
        (["gpt", "--data", "text.txt", *SMALL, "model.heads=3", "--out", "run"], "heads"),
        (["gpt", "--data", "text.txt", *SMALL, "data.max_length=17", "--out", "run"], "max_length, which is 17"),
        ([], "no task is named"),
    ],
)
def test_mistakes_are_bad_use(words: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = files()
    assert main(["train", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err.splitlines()[-1]
    assert "Traceback" not in err
    assert files() == before


def test_what_cannot_be_learned_from_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    Path("text.txt").write_text("")
    assert train("--out", "run") == 1
    assert "text.txt" in capsys.readouterr().err.splitlines()[-1]


def test_several_processes_need_a_folder(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("RANK", "1")
    assert train() == 2
    assert "give --out FOLDER" in capsys.readouterr().err


def test_of_several_processes_one_talks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert train("--dry-run") == 0
    assert capsys.readouterr() == ("", "")


def test_tensorboard_needs_its_library(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    assert train("--tensorboard", "--out", "run") == 2
    assert 'pip install "glassformer[log]"' in capsys.readouterr().err


def test_help_says_what_can_be_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())  # however wide the terminal is
    assert [part for part in ("recipe.steps=500", "glassformer config TASK", "--resume") if part not in text] == []
    assert f"Train a model for a task: {', '.join(sorted(TASKS))}." in text


def test_a_dry_run_of_a_model_that_fits_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["train", "gpt", "--preset", "gpt3", "--data", "text.txt", "--dry-run", "--json"]
    small = ["tokenizer.kind=characters", "data.max_length=8", "data.batch_size=2", "model.layers=12"]
    assert main([*asked, *small]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["parameters"] > 20_000_000_000
    assert "this run would be refused: it needs about" in err and "try a smaller model" in err
    assert main([*asked[:-2], *small, "--out", "run"]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "this run needs about" in said and "try a smaller model (model.dim, model.layers, or the size tiny)" in said
    assert not Path("run").exists()


def test_too_little_memory_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def ask_for_too_much() -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 TiB")

    assert run(ask_for_too_much, debug=False) == 1
    assert "out of memory" in capsys.readouterr().err


def test_a_plan_of_fine_tuning_says_what_the_model_to_start_from_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--out", "run", steps=4) == 0
    tune = ["train", "gpt", "--init", "run", "--data", "text.txt", "data.max_length=16", "recipe.steps=200"]
    capsys.readouterr()
    assert main([*tune, "--dry-run", "--json", "model.dropout=0.5"]) == 0
    plan = json.loads(capsys.readouterr().out)
    model = plan["config"]["model"]
    assert [model[name] for name in ("layers", "dim", "context", "dropout")] == [1, 8, 16, 0.5]
    assert plan["origins"]["model.layers"] == "run.init" and plan["origins"]["model.dropout"] == "command line"
    for word, has in {
        "model.layers=6": "run has 1: ",
        "tokenizer.kind=words": "comes with the model of run.init",
    }.items():
        assert main([*tune, "--out", "tuned", word]) == 2
        assert has in capsys.readouterr().err.splitlines()[-1]
    assert not Path("tuned").exists()


def test_a_damaged_record_does_not_spoil_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--out", "run", steps=4) == 0
    record = Path("run/metrics.jsonl")
    first, *others = record.read_bytes().splitlines(keepends=True)
    record.write_bytes(b"\xff" * (len(first) - 1) + b"\n" + b"".join(others))
    capsys.readouterr()
    assert main(["train", "--resume", "--out", "run"]) == 0
    assert "run/metrics.jsonl: 1 of 2 lines are damaged and left out of the curves" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["data.path", "data.validation", "tokenizer.file"])
def test_a_pipe_is_not_waited_for(key: str, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pipe.txt")
    given = {"data.path": "text.txt", key: "pipe.txt"}
    assert main(["train", "gpt", *SMALL, *(f"{name}={value}" for name, value in given.items()), "--out", "run"]) == 2
    said = f'{key} is "pipe.txt", a pipe or a device: wanted a file or a folder'
    assert said in capsys.readouterr().err.splitlines()[-1]
    assert not Path("run").exists()


def test_a_run_that_was_stopped_early_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    patient = (
        "recipe.patience=1",
        "recipe.learning_rate=1",
        "recipe.warmup_steps=1",
        "recipe.evaluate_every=2",
        "--out",
        "run",
    )
    words = [word for word in SMALL if not word.startswith(("recipe.warmup_steps", "recipe.evaluate_every"))]
    assert main(["train", "gpt", "--data", "text.txt", *words, "recipe.steps=100", *patient]) == 0
    assert "stopped early by recipe.patience: 1 evaluations without a better validation" in capsys.readouterr().err


def test_data_comes_from_standard_input_or_several_files(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path("text.txt").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["train", "gpt", "--data", "-", *SMALL, "recipe.steps=3", "--out", "piped"]) == 0
    shown = capsys.readouterr().err
    kept = Path(shown.split("standard input is kept in ")[1].splitlines()[0])
    assert kept.read_bytes() == text and "cache" in kept.parts
    assert "long lines are duplicates of others" in shown, "and hints are said"
    Path("more.md").write_text("another text, about the same\n" * 30)
    assert main(["train", "gpt", "--data", "text.txt,more.md", *SMALL, "recipe.steps=3", "--out", "both"]) == 0
    assert main(["train", "gpt", "--data", "text.txt,nope.md", *SMALL, "--out", "none"]) == 2
    assert "there is no such file or folder nope.md" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    assert main(["train", "gpt", "--data", "-", *SMALL, "--out", "none"]) == 2
    assert "standard input is empty" in capsys.readouterr().err


def test_the_tokenizer_of_a_public_folder_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "quick", "brown", "fox", "dog", "over", "lazy"]
    Path("bert").mkdir()
    Path("bert/vocab.txt").write_text("\n".join(words) + "\n")
    for number, path in enumerate(("bert", "bert/vocab.txt")):
        others = [word for word in SMALL if not word.startswith("tokenizer.")]
        named = [f"tokenizer.file={path}", "recipe.steps=3", "--out", f"masked-{number}"]
        assert main(["train", "masked", "--data", "text.txt", *others, *named]) == 0, capsys.readouterr().err
        assert gf.load(f"masked-{number}").required_tokenizer().vocab_size == len(words)


def test_the_end_says_which_weights_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert train("recipe.evaluate_every=2", "--out", "kept") == 0
    best = json.loads(Path("kept/best.json").read_text())["content"]["step"]
    assert f"the model is that of step {best}, whose validation loss is the lowest" in capsys.readouterr().out


def test_built_in_data_a_file_as_folder_and_a_resumed_step_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "regress", "--dry-run"]) == 0
    assert "data: the built-in sine; --data names other data" in capsys.readouterr().err
    assert train("--out", "text.txt") == 2
    assert "text.txt is a file, wanted a folder for the run" in capsys.readouterr().err
    assert train("--out", "again") == 0
    assert main(["train", "--resume", "--out", "again"]) == 0
    assert "resuming after step 6" in capsys.readouterr().err
