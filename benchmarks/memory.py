"""The estimated memory of a run beside its measured peak, for every task and model family, each in its own process.

python benchmarks/memory.py            print a table
python benchmarks/memory.py TASK ...   one run: a task and settings
"""

import json
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path

from glassformer.data.phrase_book import split_phrase_book
from glassformer.data.python_source import stdlib_labeled, stdlib_text
from glassformer.training import run as run_module
from glassformer.training.config import resolve

RUNS = (
    "gpt",
    "gpt model.dim=256 model.layers=6 model.dropout=0.1",
    "gpt data.batch_size=128 recipe.ema_decay=0.99",
    "gpt model.family=llama model.dim=256 model.heads=4 model.layers=4 model.context=256",
    "gpt model.family=modern model.dim=256 model.heads=4 model.layers=4 recipe.optimizer=muon",
    "gpt model.dim=768 model.heads=12 model.layers=6 data.batch_size=4",
    "gpt run.init=BASE",
    "gpt run.init=BASE lora.rank=8",
    "masked",
    "masked model.dim=384 model.heads=6 data.batch_size=64",
    "classify",
    "classify model.dim=256 model.layers=6 recipe.optimizer=sgd",
    "translate",
    "translate recipe.r_drop=1.0 model.dropout=0.1",
    "translate model.family=t5 model.dim=256 model.heads=4 model.layers=4 model.head_dim=64",
)
BASE = ("model.dim=512", "model.heads=8", "model.layers=6")  # a model of 20 million parameters to fine-tune
STEPS = {"gpt": 4, "masked": 4, "classify": 40, "translate": 40}  # more where batches are uneven
SHORT = ("recipe.log_every=1", "recipe.evaluate_every=4", "recipe.warmup_steps=1")
COMMON = (*SHORT, "run.device=cpu")
TOKENIZER = "tokenizer.vocab_size=2000"
WORKING, HIGHEST = "VmRSS", "VmHWM"  # the memory of a process, and the most it ever had


def main() -> None:
    """Every run, or the one that is given."""
    if sys.argv[1:]:
        print(json.dumps(measure(*sys.argv[1:])))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files, base = data_files(folder), folder / "base"
        first = (f"data.path={files['gpt']}", "recipe.steps=1", "run.device=cpu", TOKENIZER, *BASE)
        list(run_module.prepare(resolve("gpt", words=first), base, lambda text: None).train())
        print("| run | estimated | measured | estimated / measured |\n| --- | --- | --- | --- |")
        for run in RUNS:
            task, *words = run.replace("BASE", str(base)).split()
            tokenizer = [] if "BASE" in run else [TOKENIZER]
            settings = [f"data.path={files[task]}", f"recipe.steps={STEPS[task]}", *COMMON, *tokenizer, *words]
            asked = [sys.executable, __file__, task, *settings]
            done = subprocess.run(asked, capture_output=True, text=True, check=True)
            estimated, measured = json.loads(done.stdout.splitlines()[-1])
            ratio = f"{estimated / measured:.2f}"
            print(f"| `{run}` | {estimated / 1e6:.0f} MB | {measured / 1e6:.0f} MB | {ratio} |", flush=True)


def data_files(folder: Path) -> dict[str, Path]:
    """A file for each task: a megabyte of text, a thousand labeled texts, three thousand pairs."""
    text, labels, pairs = folder / "text.txt", folder / "labels.jsonl", folder / "pairs.tsv"
    text.write_text("\n".join(document.text for document in islice(stdlib_text(), 40))[:1_000_000], encoding="utf-8")
    rows = [{"label": row.label, "text": row.text} for row in stdlib_labeled()[:1000]]
    labels.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    pairs.write_text("".join(f"{one}\t{other}\n" for one, other in split_phrase_book(3000, 100, 0)[0]))
    return {"gpt": text, "masked": text, "classify": labels, "translate": pairs}


def measure(task: str, *words: str) -> tuple[int, int]:
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
    main()
