"""Whole runs watched from outside, and benchmarks/learning_curves.py: what is recorded, and when a run is ended."""

import json
import os
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import learning_curves
from benchmarks.learning_curves import FEWEST, LearningCurve, curves_chart, learning_curve, main
from glassformer.bench import whole_runs
from glassformer.bench.options import BenchOptions
from glassformer.bench.whole_runs import Logged, RunCommand, Start, watch
from tests.bench.stand_ins import peers

OPTIONS = BenchOptions(say=print)
SVG = "{http://www.w3.org/2000/svg}"
ENDLESS = """
import os, time
open("pid", "w").write(str(os.getpid()))
for step in range(10**6):
    print(f"iter {step}: loss 4.5000, time 1ms", flush=True)
    time.sleep(0.01)
"""


def command(program: str, folder: Path | None = None) -> Start:
    """A run of a Python program that prints what nanoGPT would."""

    def start(own: Path, options: BenchOptions) -> RunCommand:
        where = folder or own
        read = whole_runs._read_nanogpt  # pyright: ignore[reportPrivateUsage]
        return RunCommand([sys.executable, "-c", program], where, where / whole_runs.OUTPUT, read)

    return start


def test_lines_of_nanogpt_are_read() -> None:
    read = whole_runs._read_nanogpt  # pyright: ignore[reportPrivateUsage]
    assert read("step 250: train loss 1.9000, val loss 2.0625") == Logged(250, None, 2.0625)
    assert read("iter 30: loss 3.1250, time 12.00ms, mfu -100.00%") == Logged(30, 3.125, None)
    assert read("saving checkpoint to out-shakespeare-char") is None


def test_a_run_is_ended_when_its_time_is_over(tmp_path: Path) -> None:
    began = time.perf_counter()
    found = list(watch(command(ENDLESS, tmp_path), OPTIONS, 1.5))
    assert time.perf_counter() - began < 10
    assert [line.step for _, line in found] == list(range(len(found))) and len(found) > 3
    assert all(0 < one <= other < 2.5 for (one, _), (other, _) in pairwise(found))
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert learning_curve("x", command(ENDLESS), OPTIONS, 0.5, 12).ended == "0.5 s were over"


def test_a_run_that_fails_says_why() -> None:
    found = learning_curve("x", command("raise SystemExit('no such data')"), OPTIONS, 30, 12)
    assert found.ended.startswith("failed: ") and found.ended.endswith("exit status 1: no such data")
    assert found.best is None and not found.records


@given(st.lists(st.floats(1, 5), min_size=1, max_size=40), st.floats(1, 10))
def test_a_run_goes_on_while_its_validation_loss_improves(losses: list[float], patience: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning_curves, "watch", lambda *words: lines(losses))
        found = learning_curve("x", command(""), OPTIONS, 1e9, patience)
    seen = [each["validation"] for each in found.records]
    assert seen == losses[: len(seen)] and found.best == min(losses[: len(seen)])
    at = losses.index(min(losses[: len(seen)]))
    assert found.best_seconds == at and found.best_step == 10 * at
    waited = len(seen) - 1 - at
    if len(seen) < len(losses):
        assert waited >= max(patience, FEWEST) and found.ended.startswith("no improvement")
    else:
        assert waited < max(patience, FEWEST) + 1


def lines(losses: list[float]) -> Iterator[tuple[float, Logged]]:
    """A validation each second."""
    yield from ((float(at), Logged(10 * at, None, loss)) for at, loss in zip(count(), losses, strict=False))


def test_curves_are_drawn_near_the_best_loss_only() -> None:
    one, other = LearningCurve("glassformer"), LearningCurve("nanoGPT")
    for at, loss in enumerate((4.0, 2.0, 1.5)):
        one.add(at, Logged(at, loss, loss))
        other.add(at + 0.5, Logged(at, loss + 0.1, loss + 0.25))
    other.add(9, Logged(9, None, float("nan")))
    svg = ET.fromstring(curves_chart([one, other]))
    styles = [circle.get("class") for circle in svg.iter(f"{SVG}circle")]
    assert styles == ["one", "one", "three", "three"]  # at most 1.0 above the best, 1.5
    assert len([path for path in svg.iter(f"{SVG}path") if path.get("data-name") == "nanoGPT"]) == 2
    assert ET.fromstring(curves_chart([])) is not None


def test_the_script_writes_curves_of_all_three(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, found, picture = tmp_path / "text.txt", tmp_path / "curves.json", tmp_path / "curves.svg"
    text.write_text("to be or not to be that is the question\n" * 200, encoding="utf-8")
    words = ["--text", str(text), "--peers", str(peers(tmp_path)), "--json", str(found), "--svg", str(picture)]
    assert main([*words, "--device", "cpu", "--tiny", "--seconds", "100"]) == 0
    runs = json.loads(found.read_text(encoding="utf-8"))["runs"]
    assert [run["runner"] for run in runs] == ["glassformer", "glassformer, modern with Muon", "nanoGPT"]
    for run in runs:
        seconds = [record["seconds"] for record in run["records"]]
        assert seconds == sorted(seconds) and seconds[0] > 0 and run["ended"] == "the run was finished"
        validations = [record["validation"] for record in run["records"] if record["validation"] is not None]
        assert len(validations) == 2 and run["best"] == min(validations)
        assert any(record["loss"] is not None for record in run["records"])
    assert ET.fromstring(picture.read_text(encoding="utf-8")) is not None
    assert "nanoGPT: best 2.5000 after" in capsys.readouterr().out


def test_the_script_goes_on_after_a_run_that_fails(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("too short", encoding="utf-8")
    folder = peers(tmp_path)
    (folder / "nanoGPT/train.py").write_text("print('step 0: train loss 1.0, val loss 2.0')\n", encoding="utf-8")
    words = ["--text", str(text), "--peers", str(folder), "--json", str(tmp_path / "c.json")]
    only = ["--only", "glassformer", "--only", "nanoGPT"]
    assert main([*words, *only, "--svg", str(tmp_path / "c.svg"), "--device", "cpu", "--tiny"]) == 1
    ours, theirs = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))["runs"]
    assert ours["ended"].startswith("failed: ") and ours["best"] is None and theirs["best"] == 2.0
