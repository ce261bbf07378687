"""Plans beside measurements: peak memory and step time of training, and tokens per second of decoding.

python benchmarks/plan.py            on a GPU, all rows, under five minutes
python benchmarks/plan.py --tiny     on a CPU, small models, to try it
python benchmarks/plan.py --only transformer-base --out rows.json
"""

import argparse
import gc
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.generate import generate
from glassformer.inference.prepare import for_inference
from glassformer.layers.config import Config
from glassformer.models.gpt import GPTConfig
from glassformer.models.registry import PRESETS, build
from glassformer.planning.device_spec import DeviceSpec
from glassformer.planning.devices import find_device
from glassformer.planning.generating import plan_generation
from glassformer.planning.measure import measure
from glassformer.planning.plan import plan, what_is
from glassformer.text.learn_tokenizer import learn_tokenizer

TRAINING = (  # name, batches, length
    ("gpt2", (8, 32, 64), 1024),
    ("gpt2-medium", (4, 8, 16), 1024),
    ("gpt2-xl", (1, 4, 8), 1024),
    ("transformer-base", (64, 200, 400), 64),
)
DECODING = (("gpt2", 1, 64, 256), ("gpt2", 64, 64, 128), ("llama-7b", 1, 16, 128), ("llama-7b", 64, 16, 64))
TINY = GPTConfig(vocab=512, context=64, dim=64, layers=4, heads=4)
ROUNDS = 3
BYTES = 261  # tokens of a tokenizer without merges


def main() -> None:
    """Print a table, and write the rows as JSON."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="small models on a CPU")
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    parser.add_argument("--out", type=Path, default=Path("plan-rows.json"))
    given = parser.parse_args()
    spec = find_device("cpu" if given.tiny else "cuda")
    rows: list[dict[str, object]] = []
    print("| row | what | predicted | measured | predicted / measured |\n| --- | --- | --- | --- | --- |")
    for row in [*training(spec, given.tiny, given.only), *decoding(spec, given.tiny, given.only)]:
        rows.append(row)
    given.out.write_text(json.dumps({"device": spec.name, "torch": torch.__version__, "rows": rows}, indent=2))


def training(spec: DeviceSpec, tiny: bool, only: str) -> Iterator[dict[str, object]]:
    """Step time and peak memory of every model at three batch sizes, and the seconds of each equation."""
    cases = (("tiny", (2, 8, 16), 64),) if tiny else TRAINING
    for name, batches, length in cases:
        for batch in batches if only in name else ():
            model: Config | str = TINY if tiny else name
            found = plan(model, device=spec, batch=batch, length=length)
            try:
                took = measure(what_is(model), found)
            except torch.OutOfMemoryError as error:
                print(f"| {name} {batch} × {length} | out of memory | {found.memory.peak / 1e9:.1f} GB | {error} | |")
                continue
            finally:
                clear()
            equations = [vars(each) for each in took.by_equation]
            row = f"{name} {batch} × {length}"
            yield said(row, "ms a step", 1e3 * found.time.seconds, 1e3 * took.seconds) | {"equations": equations}
            yield said(row, "peak GB", (found.memory.peak - found.memory.overhead) / 1e9, took.peak / 1e9)


def decoding(spec: DeviceSpec, tiny: bool, only: str) -> Iterator[dict[str, object]]:
    """Tokens per second of whole calls, prefill included, in the dtype of the plan."""
    cases = (("tiny", 1, 8, 16), ("tiny", 8, 8, 16)) if tiny else DECODING
    for name, texts, prompt, new in cases:
        if only not in name:
            continue
        config = TINY if tiny else PRESETS[name]
        found = plan_generation(build(config, device="meta"), spec, texts, prompt + new // 2)
        before = plan_generation(build(config, device="meta"), spec, texts, prompt).prefill_seconds
        dtype = getattr(torch, found.dtype)
        with torch.device("cpu" if tiny else "cuda"):
            model = build(config, device="meta").to(dtype).to_empty(device="cpu" if tiny else "cuda")
            with torch.no_grad():
                for weight in model.parameters():
                    weight.normal_(0.0, 0.02)
        model = for_inference(model.eval(), "packed", copy=False)
        tokenizer = learn_tokenizer(["-"], "bpe", BYTES)
        prompts = [[7 + row % 90] * prompt for row in range(texts)]
        asked = GenerationConfig(max_new_tokens=new, min_new_tokens=new)
        times: list[float] = []
        for _ in range(ROUNDS + 1):
            began = time.perf_counter()
            generate(model, tokenizer, prompts, asked)
            times.append(time.perf_counter() - began)
        seconds = statistics.median(times[1:])
        predicted = texts * new / (before + new * found.seconds_per_step)
        yield said(f"{name} {texts} × {prompt} + {new}, {found.dtype}", "tokens/s", predicted, texts * new / seconds)
        del model
        clear()


def said(row: str, what: str, predicted: float, measured: float) -> dict[str, object]:
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
