"""Memory: peaks of training steps on a GPU beside peers, and on a CPU what a run is estimated to need and needs."""

import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from itertools import islice
from pathlib import Path

from glassformer.bench.language_models import TRAIN, language_models
from glassformer.bench.measure import GIGABYTE, Measurement
from glassformer.bench.options import BenchOptions
from glassformer.bench.translators import translators
from glassformer.data.phrase_book import split_phrase_book
from glassformer.data.python_source import stdlib_labeled, stdlib_text
from glassformer.training import run as run_module
from glassformer.training.config import resolve

BASE = ("model.dim=512", "model.heads=8", "model.layers=6")  # a model of 20 million parameters to fine-tune
RUNS = {
    "gpt": "gpt",
    "gpt-wide": "gpt model.dim=256 model.layers=6 model.dropout=0.1",
    "gpt-rows": "gpt data.batch_size=128 recipe.ema_decay=0.99",
    "llama": "gpt model.family=llama model.dim=256 model.heads=4 model.layers=4 model.context=256",
    "modern": "gpt model.family=modern model.dim=256 model.heads=4 model.layers=4 recipe.optimizer=muon",
    "gpt-wider": "gpt model.dim=768 model.heads=12 model.layers=6 data.batch_size=4",
    "fine-tune": "gpt run.init=BASE",
    "lora": "gpt run.init=BASE lora.rank=8",
    "masked": "masked",
    "masked-wide": "masked model.dim=384 model.heads=6 data.batch_size=64",
    "classify": "classify",
    "classify-wide": "classify model.dim=256 model.layers=6 recipe.optimizer=sgd",
    "translate": "translate",
    "r-drop": "translate recipe.r_drop=1.0 model.dropout=0.1",
    "t5": "translate model.family=t5 model.dim=256 model.heads=4 model.layers=4 model.head_dim=64",
}
STEPS = {"gpt": 4, "masked": 4, "classify": 40, "translate": 40}  # more where batches are uneven
COMMON = ("recipe.log_every=1", "recipe.evaluate_every=4", "recipe.warmup_steps=1", "run.device=cpu")
TOKENIZER = "tokenizer.vocab_size=2000"
SMALL = ("model.dim=16", "model.layers=1", "model.heads=2")
WORKING, HIGHEST = "VmRSS", "VmHWM"  # the memory of a process, and the most it ever had
ROWS = (*TRAIN, "equal", *RUNS)


def memory(options: BenchOptions) -> list[Measurement]:
    """Peaks beside peers on a GPU, estimates beside peaks on a CPU."""
    if options.device.device.type == "cpu":
        return _estimates(options)
    found: list[Measurement] = []
    short = replace(options, rounds=1)
    models, pairs = set(options.only) & set(TRAIN), "equal" in options.only
    if models or not pairs:
        found += language_models("train", short)
    if pairs or not models:
        found += translators(replace(short, only=tuple({*options.only, "equal"})))
    return [replace(each, suite="memory") for each in found]


def _estimates(options: BenchOptions) -> list[Measurement]:
    if not Path("/proc/self/clear_refs").exists():
        options.skip("memory of processes is measured on Linux only")
        return []
    found: list[Measurement] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files, base = data_files(folder), folder / "base"
        for row, words in RUNS.items():
            if not options.row(row, RUNS):
                continue
            options.say(f"memory {row}: {words}")
            if "BASE" in words and not base.exists():
                first = (f"data.path={files['gpt']}", "recipe.steps=1", "run.device=cpu", TOKENIZER, *BASE)
                list(run_module.prepare(resolve("gpt", words=first), base, lambda text: None).train())
            task, *more = words.replace("BASE", str(base)).split()
            settings = [f"data.path={files[task]}", f"recipe.steps={STEPS[task]}", *COMMON]
            settings += ([] if "BASE" in words else [TOKENIZER]) + more + (list(SMALL) if options.tiny else [])
            found.append(_estimate(row, task, settings))
    return found


def _estimate(row: str, task: str, settings: list[str]) -> Measurement:
    """Estimate and peak of a run in its own process."""
    command = [sys.executable, "-m", "glassformer.bench.memory", task, *settings]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    estimated, measured = json.loads(done.stdout.splitlines()[-1])
    found = Measurement(suite="memory", row=row, runner=task, unit="MB", rate=measured / 1e6, milliseconds=0, spread=0)
    found.peak_gigabytes = measured / GIGABYTE
    found.note = f"estimated {estimated / 1e6:.0f} MB, measured {measured / 1e6:.0f} MB: {estimated / measured:.2f}"
    return found


def data_files(folder: Path) -> dict[str, Path]:
    """A file for each task: a megabyte of text, a thousand labeled texts, three thousand pairs."""
    text, labels, pairs = folder / "text.txt", folder / "labels.jsonl", folder / "pairs.tsv"
    text.write_text("\n".join(document.text for document in islice(stdlib_text(), 40))[:1_000_000], encoding="utf-8")
    rows = [{"label": row.label, "text": row.text} for row in stdlib_labeled()[:1000]]
    labels.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    pairs.write_text("".join(f"{one}\t{other}\n" for one, other in split_phrase_book(3000, 100, 0)[0]))
    return {"gpt": text, "masked": text, "classify": labels, "translate": pairs}


def measure_run(task: str, *words: str) -> tuple[int, int]:
    """The estimate of a run, and by how much its memory grew from when the model was built to its peak."""
    resolved = resolve(task, words=words)
    with tempfile.TemporaryDirectory() as folder:
        plan = run_module.prepare(resolved, None, lambda text: None, dry_run=True)
        estimated = plan.estimate.memory
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
        before = _memory(WORKING)
        run = run_module.prepare(resolved, Path(folder) / "run", lambda text: None)
        for _ in run.train():
            pass
    return estimated, _memory(HIGHEST) - before


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    print(json.dumps(measure_run(*sys.argv[1:])))
