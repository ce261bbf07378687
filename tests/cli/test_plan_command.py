"""`glassformer plan` of one step: what it prints, what it refuses, and what JSON has."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.cli.main import main
from glassformer.cli.plan_tables import write_plan
from glassformer.models.gpt import GPTConfig
from glassformer.planning.figures import Generation, Plan
from glassformer.planning.plan import plan
from tests.planning.made_plans import made_plan

TINY = GPTConfig(vocab=500, context=64, dim=64, layers=2, heads=2)


def shown(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["plan", *words]) == 0
    return capsys.readouterr().out


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The error of a wrong call, on one line."""
    assert main(["plan", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("glassformer: error: ") and error.count("\n") == 1 and "\\n" not in error
    return error


def columns(text: str) -> tuple[list[list[float]], list[float]]:
    """The numbers of the table of equations in each row, and those of its last row."""
    lines = [line.split() for line in text.splitlines()]
    start = next(number for number, line in enumerate(lines) if line[:2] == ["equation", "calls"])
    end = next(number for number in range(start, len(lines)) if lines[number][:1] == ["all"])
    rows = [[float(word.replace(",", "")) for word in line[-3:]] for line in lines[start + 2 : end + 1]]
    return rows[:-1], rows[-1]


@pytest.mark.parametrize("words", [["--device", "h200"], ["--device", "h200", "--devices", "8"], ["--device", "m1"]])
def test_every_column_of_the_table_adds_up_to_its_last_row(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(["transformer-base", "--batch", "64", "--length", "64", *words], capsys)
    rows, total = columns(text)
    for column, (rounding, whole) in enumerate(zip((5e-5, 5e-5, 5e-3), total, strict=True)):
        assert sum(row[column] for row in rows) == pytest.approx(whole, abs=rounding * (len(rows) + 1))
    names = {line.split()[0] for line in text.splitlines() if line.strip()}
    assert {"update", "other"} <= names and ("exchange" in names) == ("8" in words)


def test_json_has_what_follows_from_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(shown(["gpt2", "--device", "h200", "--batch", "2", "--length", "64", "--json"], capsys))["plan"]
    same = plan("gpt2", device="h200", batch=2, length=64)
    memory, counted = found["memory"], found["operations"]
    assert (memory["peak"], memory["peak_checkpointed"]) == (same.memory.peak, same.memory.peak_checkpointed)
    assert (counted["step"], counted["per_token"]) == (same.operations.step, same.operations.per_token)
    assert found["fits"] is True and found["notes"] == []
    assert found["generation"]["fits"] is True
    assert found["generation"]["largest_batch"] == getattr(same.generation, "largest_batch")  # noqa: B009
    assert found["device"]["memory"] == 141e9 and found["time"]["update"] == same.time.update


def generating(made: Generation, capsys: pytest.CaptureFixture[str]) -> str:
    found: Plan = replace(made_plan(), generation=made)
    write_plan(found, None)
    return next(line for line in capsys.readouterr().out.splitlines() if line.startswith("generating"))


def test_generation_that_does_not_fit_is_said_with_the_largest_batch(capsys: pytest.CaptureFixture[str]) -> None:
    generation = made_plan().generation
    assert generation is not None
    fits = generating(replace(generation, fits=True, largest_batch=12), capsys)
    too_large = generating(replace(generation, fits=False, largest_batch=3), capsys)
    assert fits.endswith("largest batch in 8 GB: 12") and "does not fit" not in fits
    assert too_large.endswith("; does not fit, largest batch in 8 GB: 3")


def test_one_sequence_is_singular(capsys: pytest.CaptureFixture[str]) -> None:
    generation = made_plan().generation
    assert generation is not None
    assert "(1 sequence of 1 token, " in generating(replace(generation, batch=1, length=1), capsys)


def test_what_would_fit_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(["llama-7b", "--device", "h100", "--batch", "1", "--length", "256"], capsys)
    found = re.search(r"does not fit into 80 GB: .* \(--strategy fsdp --devices (\d+)\)", text)
    assert found is not None
    assert plan("llama-7b", device="h100", batch=1, length=256, strategy="fsdp", devices=int(found[1])).fits


@pytest.mark.parametrize(
    ("changes", "memory", "said"),
    [
        (None, 8e9, "one row takes too much; FSDP over 1,024 such devices does not hold a batch of 1 either"),
        (None, 1e3, "0 GB on each device; FSDP over 1,024"),
        ({"length": 96}, 8e9, "takes too much; the longest that fits is 96 (--length 96)"),
        ({"length": 9, "batch": 1}, 8e9, "the longest that fits is 9 (--length 9 --batch 1)"),
        (
            {"length": 9, "activation_checkpointing": True},
            8e9,
            "the longest that fits with activation checkpointing is 9 (--length 9)",
        ),
        (
            {"strategy": "fsdp", "devices": 12, "batch": 1, "activation_checkpointing": True},
            1e3,
            "FSDP over 12 such devices holds it with a batch of 1 on each and activation checkpointing "
            "(--strategy fsdp --devices 12 --batch 1)",
        ),
    ],
)
def test_what_would_fit_is_said_with_its_options(
    changes: dict[str, object] | None, memory: float, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = made_plan()
    found = replace(
        found,
        device=replace(found.device, memory=memory, interconnect=1e9),
        limits=replace(found.limits, batch=0, batch_checkpointed=0),
        workload=replace(found.workload, length=found.workload.length if changes else 0),
        generation=None,
    )
    write_plan(found, None if changes is None else replace(found.workload, **changes))  # type: ignore[arg-type]
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gpt2", "--length", "0"], "length is 0, wanted a whole number, 1 or more"),
        (["vit-b16", "--length", "64"], "length is 64, but vit-b16 has no length to choose: it reads no tokens"),
        (["word2vec", "--length", "3"], "it reads no tokens"),
        (["dalle", "--length", "5"], "every example of it has"),
        (["gpt2", "--batch", "1.5"], "'1.5' is not a whole number"),
        (["gpt2", "--batch", "0"], "batch is 0, wanted a whole number, 1 or more"),
        (["gpt2", "--length", "1e3"], "'1e3' is not a whole number"),
        (["gpt2", "--devices", "2.0"], "'2.0' is not a whole number"),
        (["gpt2", "--tokens", "1e9", "--pue", "0"], "--pue is 0, wanted 1 or more"),
        (["gpt2", "--tokens", "1e9", "--pue", "nan"], "--pue is nan, wanted 1 or more"),
        (["gpt2", "--tokens", "0"], "--tokens is 0, wanted a number above 0"),
        (["gpt2", "--pue", "1.2"], "--pue is about the energy of a run: give a model and --tokens"),
        (["gpt2", "--law", "size"], "--law is about a fitted law: give --fit FOLDERS"),
        (["gpt2", "--floor", "1.5"], "--floor is about a fitted law: give --fit FOLDERS"),
        (["--budget", "1e15", "--floor", "0"], "--floor is about a fitted law: give --fit FOLDERS"),
        (["--budget", "1e15", "--svg", "x.svg"], "--svg is about a model: name one"),
        (["--budget", "1e15", "--measure"], "--measure is about a model: name one"),
        (["--budget", "1e15", "--batch", "4"], "--batch is about a model: name one"),
        (["--budget", "1e15", "--dtype", "float32"], "--dtype is about a model: name one"),
        (["--budget", "1e15", "--strategy", "ddp"], "--strategy is about a model: name one"),
        (["--fit", "/", "--device", "h100"], "--device is about a model: name one"),
        (["gpt2", "--budget", "soon"], "budget is 'soon'"),
        (["gpt2", "--measure", "--device", "m1"], "steps can only be measured on this machine's"),
    ],
)
def test_what_has_no_meaning_is_refused_before_any_work(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.planning.plan.Planning.plan", lambda planning: pytest.fail("it was planned"))
    monkeypatch.setattr("glassformer.planning.devices.this_cpu", lambda: pytest.fail("the CPU was measured"))
    assert said in refused(words, capsys)


def test_a_number_of_operations_needs_no_device(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.planning.devices.this_cpu", lambda: pytest.fail("the CPU was measured"))
    assert "best size for 1e20 operations" in shown(["--budget", "1e20"], capsys)


def test_a_limit_beyond_which_nothing_is_looked_for_is_said_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    assert "largest batch in 24 GB: 1,048,576 or more, with" in shown(["linear", "--device", "l4"], capsys)


def test_a_dtype_that_a_device_has_no_rate_for_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["vit-tiny", "--device", "t4", "--dtype", "bfloat16"]
    assert "note: NVIDIA T4 16GB has no rate for bfloat16: planned at the rate of float32" in shown(words, capsys)


def test_two_pictures_are_not_written_into_the_same_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "a.svg")
    words = ["gpt2", "--device", "h200", "--svg", path, "--law-svg", path, "--fit", str(tmp_path)]
    assert "two outputs have this path" in refused(words, capsys)


def test_folders_without_a_run_are_named_on_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    error = refused(["--fit", *map(str, folders)], capsys)
    assert "no finished run to fit a law to; " in error
    assert all(f"{folder}: is not the folder" in error or f"{folder}: " in error for folder in folders)
