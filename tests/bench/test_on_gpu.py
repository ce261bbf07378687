"""benchmarks/on_gpu.py: stages end in time, one after the other, whatever the one before did."""

import argparse
import json
import shlex
import sys
import time
from pathlib import Path

import pytest

from benchmarks.on_gpu import STAGES, commands_of, main, run_stages
from glassformer.bench.suites import SUITES
from tests.bench.stand_ins import peers

LATER = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
HANGS = f"""
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("waiting", flush=True)
subprocess.run([sys.executable, "-c", {LATER!r}, sys.argv[1]])
time.sleep(600)
"""


def python(program: str, *words: object) -> list[str]:
    return [sys.executable, "-c", program, *map(str, words)]


def alive(path: Path) -> bool:
    """Whether the process whose number is in a file runs; one that ended but has not been waited for does not."""
    try:
        stat = Path(f"/proc/{int(path.read_text())}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks at processes as Linux shows them")
def test_a_stage_that_fails_or_hangs_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.on_gpu.GRACE", 0.3)
    pid = tmp_path / "pid"
    commands = {
        "fails": (60.0, python("print('one'); raise SystemExit('no CUDA device')")),
        "hangs": (3.0, python(HANGS, pid)),
        "works": (60.0, python("print('done')")),
    }
    began = time.monotonic()
    found = run_stages(commands, tmp_path, 100)
    assert time.monotonic() - began < 30
    assert [each.ended for each in found] == ["exit status 1", "3 s were over", "ok"]
    assert [each.last for each in found] == ["no CUDA device", "waiting", "done"]
    assert not alive(pid), "what a stage starts ends with it"
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert [each["stage"] for each in summary] == list(commands)
    assert (tmp_path / "fails.log").read_text(encoding="utf-8") == "one\nno CUDA device\n"


def test_all_stages_together_end_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.on_gpu.LEAST", 1.0)
    commands = {"one": (60.0, python("import time; time.sleep(60)")), "other": (60.0, python(""))}
    began = time.monotonic()
    found = run_stages(commands, tmp_path, 2)
    assert time.monotonic() - began < 10
    assert [each.ended for each in found] == ["2 s were over", "not begun: the time was over"]


def arguments(tmp_path: Path, **more: object) -> argparse.Namespace:
    given = {"out": tmp_path, "only": [], "also": [], "peers": tmp_path / "my peers", "text": tmp_path, "tiny": False}
    return argparse.Namespace(**given | more)


def test_every_stage_asks_for_what_there_is(tmp_path: Path) -> None:
    commands = commands_of(arguments(tmp_path))
    assert [*commands] == [*STAGES]
    for name, (_, words) in commands.items():
        if words[2:4] == ["glassformer", "bench"]:
            suite = SUITES[words[4]]
            only = [words[at + 1] for at, word in enumerate(words) if word == "--only"]
            assert set(only) <= {*suite.rows, *suite.runners}
        if name != "tests":
            assert str(tmp_path.resolve() / f"{name}.json") in words
    assert str((tmp_path / "my peers").resolve()) in commands["train"][1]
    assert "--tiny" not in commands["train"][1]
    without = commands_of(arguments(tmp_path, peers=None, text=None))
    assert "--peers" not in without["train"][1] and "curves" not in without


def test_stages_run_in_their_smallest_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, folder = tmp_path / "out", peers(tmp_path)
    words = ["--out", str(out), "--tiny", "--only", "translate", "--only", "shapes", "--peers", str(folder)]
    also = shlex.join(python("print('eight bits')"))
    assert main([*words, "--also", "float8", also]) == 0
    assert {path.name for path in out.iterdir()} == {
        "translate.json", "translate.log", "shapes.json", "shapes.svg", "shapes.log", "float8.log", "summary.json",
    }  # fmt: skip
    assert "shapes context 16: glassformer: " in (out / "shapes.log").read_text(encoding="utf-8")
    table = [line.split() for line in capsys.readouterr().out.splitlines()[-3:]]
    assert [(line[0], line[-1]) for line in table] == [("translate", "ok"), ("shapes", "ok"), ("float8", "ok")]
