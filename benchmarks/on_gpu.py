"""All measurements on a GPU, in a fixed order, each stage a process with a time limit of its own.

`python benchmarks/on_gpu.py --out gpu-results --peers peers --text input.txt` runs every stage, `--only NAME` some.
Each stage writes NAME.json (and pictures) and NAME.log into the folder; summary.json is written after each. A stage
that fails or hangs does not stop the others. All of them together take at most `--seconds`: a stage gets what is left
of them, and is not begun when that is little. `--also NAME COMMAND` adds a command of your own; `--tiny` tries the
stages on a CPU.
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEAST = 15.0  # seconds that have to be left for a stage to be begun
GRACE = 5.0  # seconds from asking a stage to end until it is killed
ALSO = 300.0  # the limit of a stage from the command line
SHOWN = 100  # characters of the last line of a log in the table


@dataclass(frozen=True)
class Stage:
    """A command after `python`, and the most seconds it may take.

    {out} is the path of its files without an ending; {peers} is the option, or nothing where no peers are given.
    """

    limit: float
    command: str
    text: bool = False  # whether it trains on --text
    tiny: bool = True  # whether it has --tiny


BENCH = "-m glassformer bench"
PLAN = "-m benchmarks.plan --out {out}.json"
NANOGPTS = "--only nanoGPT --only 'nanoGPT with biases'"
STAGES: dict[str, Stage] = {
    "train": Stage(
        180,
        f"{BENCH} train --rounds 3 --only 124M {NANOGPTS} {{peers}} --json {{out}}.json",
    ),
    "translate": Stage(180, f"{BENCH} translate --rounds 3 --only equal --only packed --json {{out}}.json"),
    "large": Stage(
        270,
        f"{BENCH} train --rounds 3 --only 350M --only 1.5B --only glassformer {NANOGPTS} {{peers}} --json {{out}}.json",
    ),
    "curves": Stage(
        330,
        "-m benchmarks.learning_curves --seconds 120 --text {text} {peers} --json {out}.json --svg {out}.svg",
        text=True,
    ),
    "plan": Stage(300, f"{PLAN} --kind training --only gpt2-xl --only gpt2-medium:16 --only transformer-base"),
    "decoding": Stage(240, f"{PLAN} --kind decoding"),
    "sweep": Stage(330, "-m benchmarks.scaling_sweep --workers 9 --out {out}.json"),
    "float8": Stage(180, "-m benchmarks.float8 --out {out}.json"),
    "shapes": Stage(170, f"{BENCH} shapes --rounds 3 --seconds 120 --json {{out}}.json --svg {{out}}.svg"),
    "small": Stage(150, f"{BENCH} small --rounds 3 {{peers}} --json {{out}}.json"),
    "real": Stage(240, f"{BENCH} translate --rounds 3 --only real --json {{out}}.json"),
    "decode": Stage(240, f"{BENCH} decode --rounds 3 --only gpt2 --only gpt2-64 {{peers}} --json {{out}}.json"),
    "memory": Stage(240, f"{BENCH} memory --json {{out}}.json"),
    "tests": Stage(  # with names as they end, in case the time is over first
        300,
        "-m pytest -v -n 4 --dist loadgroup -p no:benchmark tests/gpu tests/inference/test_triton_kernels.py",
        tiny=False,
    ),
}


@dataclass(frozen=True)
class Result:
    """How a stage ended, its seconds, and the last line of its log."""

    stage: str
    ended: str
    seconds: float
    last: str


def run_stage(name: str, words: Sequence[str], limit: float, folder: Path) -> Result:
    """Run a command for so many seconds at most, with all it prints in a file."""
    log, began = folder / f"{name}.log", time.monotonic()
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONUNBUFFERED": "1"}
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            words, cwd=ROOT, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = process.wait(limit)
            ended = "ok" if code == 0 else f"exit status {code}"
        except subprocess.TimeoutExpired:
            ended = f"{limit:.0f} s were over"
        finally:
            end(process)
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return Result(name, ended, time.monotonic() - began, (lines or [""])[-1][:SHOWN])


def end(process: subprocess.Popen[bytes]) -> None:
    """End a stage and all that it started: a process that is left would keep the GPU from the next."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(GRACE)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def run_stages(commands: Mapping[str, tuple[float, Sequence[str]]], folder: Path, seconds: float) -> list[Result]:
    """Run commands one after the other with their limits, and all within so many seconds."""
    found: list[Result] = []
    over = time.monotonic() + seconds
    for name, (limit, words) in commands.items():
        left = over - time.monotonic()
        if left < min(LEAST, limit):
            found.append(Result(name, "not begun: the time was over", 0.0, ""))
        else:
            print(f"{name}: {shlex.join(words[1:])}", flush=True)
            found.append(run_stage(name, words, min(limit, left), folder))
            print(f"{name}: {found[-1].ended} after {found[-1].seconds:.0f} s", flush=True)
        summary = json.dumps([asdict(each) for each in found], indent=1)
        (folder / "summary.json").write_text(summary + "\n", encoding="utf-8")
    return found


def commands_of(given: argparse.Namespace) -> dict[str, tuple[float, Sequence[str]]]:
    """Limits and commands of the stages that are asked for; one that needs a text is left out where there is none."""
    paths = {
        "peers": "" if given.peers is None else shlex.join(["--peers", str(given.peers.resolve())]),
        "text": "" if given.text is None else shlex.quote(str(given.text.resolve())),
    }
    found: dict[str, tuple[float, Sequence[str]]] = {}
    for name, stage in STAGES.items():
        if given.only and name not in given.only:
            continue
        if stage.text and given.text is None:
            print(f"{name} is left out: it needs --text")
            continue
        out = shlex.quote(str(given.out.resolve() / name))
        words = shlex.split(stage.command.format(out=out, **paths))
        found[name] = (stage.limit, [sys.executable, *words, *(["--tiny"] if given.tiny and stage.tiny else [])])
    return found | {name: (ALSO, shlex.split(command)) for name, command in given.also}


def main(words: Sequence[str] | None = None) -> int:
    """Run the stages, and print a table of how they ended."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="the folder for JSON files, logs and pictures")
    parser.add_argument("--only", action="append", default=[], choices=[*STAGES], help="only this stage")
    parser.add_argument("--also", action="append", nargs=2, default=[], metavar=("NAME", "COMMAND"))
    parser.add_argument("--peers", type=Path, help="a folder with copies of nanoGPT and gpt-fast, whose code is run")
    parser.add_argument("--text", type=Path, help="Tiny Shakespeare, for the learning curves")
    parser.add_argument("--seconds", type=float, default=570.0, help="the most for all stages together")
    parser.add_argument("--tiny", action="store_true", help="the smallest sizes, to try the script")
    given = parser.parse_args(words)
    given.out.mkdir(parents=True, exist_ok=True)
    found = run_stages(commands_of(given), given.out, given.seconds)
    width = max((len(each.stage) for each in found), default=0)
    for each in found:
        print(
            f"{each.stage:{width}}  {each.seconds:5.0f} s  {each.ended}{'' if each.ended == 'ok' else ': ' + each.last}"
        )
    return int(any(each.ended != "ok" for each in found))


if __name__ == "__main__":
    raise SystemExit(main())
