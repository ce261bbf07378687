"""Memory: peaks of training steps on a GPU beside peers, and on a CPU what a run is estimated to need and needs."""

import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from itertools import islice
from pathlib import Path

from glassformer.bench.language_models import TRAIN, language_models
from glassformer.bench.measure import GIGABYTE, BenchError, Measurement
from glassformer.bench.options import BenchOptions
from glassformer.bench.translators import translators
from glassformer.data.phrase_book import split_phrase_book
from glassformer.data.python_source import stdlib_labeled, stdlib_text

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
                sizes = SMALL if options.tiny else BASE
                first = (f"data.path={files['gpt']}", "recipe.steps=1", "run.device=cpu", TOKENIZER, *sizes)
                _in_process("gpt", *first, base=base)
            task, *more = words.replace("BASE", str(base)).split()
            settings = [f"data.path={files[task]}", f"recipe.steps={STEPS[task]}", *COMMON]
            fresh = [] if "BASE" in words else [TOKENIZER, *(SMALL if options.tiny else ())]
            settings += more + fresh
            found.append(_estimate(row, task, settings))
    return found


def _estimate(row: str, task: str, settings: list[str]) -> Measurement:
    """Estimate and peak of a run in its own process."""
    estimated, measured = json.loads(_in_process(task, *settings))
    found = Measurement(suite="memory", row=row, runner=task, unit="MB", rate=measured / 1e6, milliseconds=0, spread=0)
    found.peak_gigabytes = measured / GIGABYTE
    found.note = f"estimated {estimated / 1e6:.0f} MB, measured {measured / 1e6:.0f} MB: {estimated / measured:.2f}"
    return found


def _in_process(*words: str, base: Path | str = "") -> str:
    """The last line that `run_memory` prints in a process of its own."""
    command = [sys.executable, "-m", "glassformer.bench.run_memory", str(base), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"a run of {words[0]} failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    return done.stdout.splitlines()[-1]


def data_files(folder: Path) -> dict[str, Path]:
    """A file for each task: a megabyte of text, a thousand labeled texts, three thousand pairs."""
    text, labels, pairs = folder / "text.txt", folder / "labels.jsonl", folder / "pairs.tsv"
    text.write_text("\n".join(document.text for document in islice(stdlib_text(), 40))[:1_000_000], encoding="utf-8")
    rows = [{"label": row.label, "text": row.text} for row in stdlib_labeled()[:1000]]
    labels.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    pairs.write_text("".join(f"{one}\t{other}\n" for one, other in split_phrase_book(3000, 100, 0)[0]))
    return {"gpt": text, "masked": text, "classify": labels, "translate": pairs}
