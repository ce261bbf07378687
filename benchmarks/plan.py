"""Plans beside measurements: peak memory and step time of training, and tokens per second of decoding.

python benchmarks/plan.py                        on a GPU, all rows; compiling takes most of the time
python benchmarks/plan.py --tiny                 on a CPU, small models, to try it
python benchmarks/plan.py --cpu                  on a CPU, small presets at several sizes
python benchmarks/plan.py --only gpt2 --only gpt2-xl:8 --out rows.json      some models, or one of their batches
python benchmarks/plan.py --kind decoding        training or decoding alone

A row that fails says why, and the next one is measured; rows that are in the file already are kept.
"""

import argparse
import gc
import json
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch

from glassformer.bench.decoding import DecodingRow, decoding_step
from glassformer.bench.measure import OURS, wait
from glassformer.errors import GlassformerError
from glassformer.layers.config import Config
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import PRESETS, build
from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.devices import find_device
from glassformer.planning.generating import plan_generation
from glassformer.planning.measure import measure
from glassformer.planning.plan import plan, what_is
from glassformer.training.device import Device

TRAINING = (  # name, batches, length
    ("gpt2", (8, 32, 64), 1024),
    ("gpt2-medium", (4, 8, 16), 1024),
    ("gpt2-xl", (1, 4, 8), 1024),
    ("transformer-base", (64, 200, 400), 64),
)
DECODING = (("gpt2", 1, 64, 256), ("gpt2", 64, 64, 128), ("llama-7b", 1, 16, 128), ("llama-7b", 64, 16, 64))
ON_CPU = (
    ("transformer-tiny", (8, 32), 32),
    ("vit-tiny", (8, 32), None),
    ("gpt2", (1, 2), 128),
    ("bert-base", (1, 2), 64),
)
DECODING_ON_CPU = (("gpt2", 1, 16, 16), ("gpt2", 8, 16, 16))
TINY = GPTConfig(vocab=512, context=64, dim=64, layers=4, heads=4)
TRAINING_TINY, DECODING_TINY = (("tiny", (2, 8, 16), 64),), (("tiny", 1, 8, 16), ("tiny", 8, 8, 16))
ROUNDS = 3
Row = dict[str, object]


def main() -> None:
    """Print a table, and write the rows as JSON."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="small models on a CPU")
    parser.add_argument("--cpu", action="store_true", help="small presets on a CPU")
    parser.add_argument("--only", action="append", default=[], help="only this model, or MODEL:BATCH; may be repeated")
    parser.add_argument("--kind", choices=("training", "decoding"), help="only rows of this kind")
    parser.add_argument("--out", type=Path, default=Path("plan-rows.json"))
    given = parser.parse_args()
    spec = find_device("cpu" if given.tiny or given.cpu else "cuda")
    trained = TRAINING_TINY if given.tiny else ON_CPU if given.cpu else TRAINING
    decoded = DECODING_TINY if given.tiny else DECODING_ON_CPU if given.cpu else DECODING
    cases: list[tuple[str, Callable[[], Iterator[Row]]]] = []
    for name, batches, length in trained if given.kind != "decoding" else ():
        cases += [(f"{name}:{batch}", partial(training, spec, name, batch, length)) for batch in batches]
    for name, texts, prompt, new in decoded if given.kind != "training" else ():
        cases.append((f"{name}:{texts}", partial(decoding, spec, name, texts, prompt, new)))
    names = {name for name, _ in cases} | {name.split(":")[0] for name, _ in cases}
    if unknown := [name for name in given.only if name not in names and not given.tiny]:
        parser.error(f"--only {unknown[0]} is none of the rows; there are {', '.join(name for name, _ in cases)}")
    wanted = names if given.tiny or not given.only else set(given.only)
    before = json.loads(given.out.read_text())["rows"] if given.out.is_file() else []
    rows: list[Row] = []
    print("| row | what | predicted | measured | predicted / measured |\n| --- | --- | --- | --- | --- |")
    for name, case in cases:
        if name not in wanted and name.split(":")[0] not in wanted:
            continue
        try:
            for row in case():
                rows.append(row)
                key = row["row"], row["what"]
                before = [each for each in before if (each["row"], each["what"]) != key] + [row]
        except (RuntimeError, GlassformerError) as error:  # a row that does not fit, or does not run, ends alone
            print(f"| {name} | failed: {str(error).splitlines()[0][:100]} | | | |", flush=True)
        clear()
        found = {"device": spec.name, "torch": torch.__version__, "rows": before}
        given.out.write_text(json.dumps(found, indent=2))


def training(spec: DeviceSpec, name: str, batch: int, length: int | None) -> Iterator[Row]:
    """Step time and peak memory of a training step."""
    model: Config | str = TINY if name == "tiny" else name
    found = plan(model, device=spec, batch=batch, length=length)
    took = measure(what_is(model), found, equations=False)
    row = f"{name} {batch} × {found.workload.length}, {found.workload.dtype}"
    yield said(row, "ms a step", 1e3 * found.time.seconds, 1e3 * took.seconds)
    held = found.memory.peak - (found.memory.overhead if spec.kind == "cpu" else 0)
    yield said(row, "peak GB", held / 1e9, took.peak / 1e9)


def decoding(spec: DeviceSpec, name: str, texts: int, prompt: int, new: int) -> Iterator[Row]:
    """Tokens per second of whole calls, prefill included, in the dtype of the plan."""
    config = TINY if name == "tiny" else PRESETS[name]
    found = plan_generation(build(config, device="meta"), spec, texts, prompt + new // 2)
    before = plan_generation(build(config, device="meta"), spec, texts, prompt).prefill_seconds
    row = DecodingRow(config=config, batch=texts, read=prompt, write=new)
    device = torch.device(spec.kind)
    work = decoding_step(OURS, row, device, torch.get_num_threads())
    with torch.no_grad():
        work()
        wait(device)
        times = [Device(device).timed(work) for _ in range(ROUNDS)]
    predicted = texts * new / (before + new * found.seconds_per_step)
    name = f"{name} {texts} × {prompt} + {new}, {found.dtype}"
    yield said(name, "tokens/s", predicted, texts * new / statistics.median(times))


def said(row: str, what: str, predicted: float, measured: float) -> Row:
    """One line of the table, and the same as data."""
    print(f"| {row} | {what} | {predicted:,.2f} | {measured:,.2f} | {predicted / measured:.2f} |", flush=True)
    return {"row": row, "what": what, "predicted": predicted, "measured": measured}


def clear() -> None:
    """Free what the last model took, compiled code too."""
    gc.collect()
    torch.compiler.reset()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
