# ruff: noqa: PLC0415 - peers are imported where they are measured because they may be missing
"""Decoding speed against Hugging Face and CTranslate2, with random weights: `decoding.py gpu` or `decoding.py cpu`.

Each figure is the median of several rounds after a warm-up; all runners take turns. Prints a table, and with
`--out FILE` writes the same as JSON. A peer that is not installed is left out and named.
"""

import argparse
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from glassformer.decoding.beam import BeamSearch, run_search
from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.loop import DecodeLoop
from glassformer.decoding.sampling import SpecialTokens
from glassformer.equations.attention import attention
from glassformer.inference.prepare import for_inference, inference_mode
from glassformer.layers.model import Model
from glassformer.models.gpt import GPTConfig
from glassformer.models.llama import LlamaConfig
from glassformer.models.registry import build
from glassformer.models.seq2seq import Seq2SeqConfig

Rows = list[dict[str, object]]
ROUNDS = 5


def wait() -> None:
    """Wait for the device, where there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds(runs: dict[str, Callable[[], object]], rounds: int = ROUNDS, warm: int = 2) -> dict[str, list[float]]:
    """Seconds of each run, taking turns, after a warm-up; one that fails is reported and left out."""
    times: dict[str, list[float]] = {}
    for round in range(warm + rounds):
        for name, run in list(runs.items()):
            wait()
            start = time.perf_counter()
            try:
                run()
            except Exception as error:
                print(f"{name}: left out: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
                del runs[name]
                times.pop(name, None)
                continue
            wait()
            if round >= warm:
                times.setdefault(name, []).append(time.perf_counter() - start)
    return times


def record(rows: Rows, work: str, unit: str, amount: float, times: dict[str, list[float]], **more: float) -> None:
    """Add a row for each run: the median rate and the spread of the rounds."""
    for name, taken in times.items():
        median = statistics.median(taken)
        row = {"work": work, "run": name, "rate": amount / median, "unit": unit, "seconds": median}
        row |= {"spread": (max(taken) - min(taken)) / median, **more}
        if "gigabytes" in more:
            row["terabytes_per_second"] = more["gigabytes"] / 1000 * amount / median
        rows.append(row)
        print(f"{work:<44} {name:<28} {amount / median:>12,.1f} {unit:<12} ±{row['spread']:.0%}", flush=True)


def fresh(config: object, device: str, dtype: torch.dtype) -> Model:
    """A model with random weights, built on the device."""
    torch.manual_seed(0)
    model = build(config, device="meta").to_empty(device=device).to(dtype).eval()  # pyright: ignore[reportArgumentType]
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(0, 0.02) if parameter.dim() > 1 else parameter.fill_(1.0 if "norm" in name else 0.0)
    return model.requires_grad_(False)


def write(model: Model, prompts: list[list[int]], new: int, compiled: bool) -> Callable[[], None]:
    """Greedy decoding of this many tokens from these prompts, prefill included."""
    config = GenerationConfig(max_new_tokens=new, compile=compiled)

    def run() -> None:
        with inference_mode(model):
            loop = DecodeLoop(model, prompts, config, SpecialTokens())  # pyright: ignore[reportArgumentType]
            written = 0
            while written < new:
                written += len(loop.next_tokens()[0])

    return run


def search(model: Model, sources: list[list[int]], new: int, beam: int, compiled: bool) -> Callable[[], None]:
    """Beam search of this many tokens for these sources."""
    config = GenerationConfig(max_new_tokens=new, num_beams=beam, compile=compiled)
    limits = [new] * len(sources)

    def run() -> None:
        with inference_mode(model):
            run_search(BeamSearch(model, sources, limits, config, SpecialTokens()), limits)  # pyright: ignore[reportArgumentType]

    return run


def tokens(rows: int, length: int, vocab: int) -> list[list[int]]:
    """Random prompts."""
    return torch.randint(5, vocab, (rows, length), generator=torch.Generator().manual_seed(1)).tolist()


def their_gpt2(device: str, dtype: torch.dtype) -> object:
    """Hugging Face's GPT-2 of the same size."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config()).to(device, dtype).eval()


def their_marian(device: str, dtype: torch.dtype, vocab: int) -> object:
    """Hugging Face's Marian of the base size."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=vocab, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, max_position_embeddings=512,
        pad_token_id=0, eos_token_id=1, forced_eos_token_id=None, decoder_start_token_id=0, bos_token_id=None,
    )  # fmt: skip
    return MarianMTModel(config).to(device, dtype).eval()


def their_run(model: object, prompts: list[list[int]], new: int, **more: object) -> Callable[[], object]:
    """Hugging Face's `generate` of exactly this many tokens."""
    ids = torch.tensor(prompts, device=next(model.parameters()).device)  # pyright: ignore[reportAttributeAccessIssue]
    settings = {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False, **more}
    return lambda: model.generate(ids, attention_mask=torch.ones_like(ids), **settings)  # pyright: ignore[reportAttributeAccessIssue]


def large(rows: Rows, options: argparse.Namespace) -> None:
    """The 7B Llama shape, one text."""
    config, new = LlamaConfig(context=2048), 128
    for form in ("bfloat16", "int8", "int4"):
        if form not in options.forms:
            continue
        model = for_inference(fresh(config, "cuda", torch.bfloat16), "packed" if form == "bfloat16" else form)  # pyright: ignore[reportArgumentType]
        read = sum(t.numel() * t.element_size() for n, t in model.state_dict().items() if "embedding" not in n) / 1e9
        times = seconds({f"glassformer {form}": write(model, tokens(1, 16, 32000), new, True)}, 3, 1)
        record(rows, "7B Llama, batch 1, 16 + 128", "tokens/s", new, times, gigabytes=read)
        del model
        gc.collect()
        torch.cuda.empty_cache()


def small(rows: Rows, options: argparse.Namespace) -> None:
    """GPT-2 124M, one text and 64."""
    model, theirs = (
        for_inference(fresh(GPTConfig(), "cuda", torch.bfloat16), "packed"),
        their_gpt2("cuda", torch.bfloat16),
    )
    for batch, prompt, new in ((1, 64, 256), (64, 64, 128)):
        prompts = tokens(batch, prompt, 50257)
        runs: dict[str, Callable[[], object]] = {"glassformer": write(model, prompts, new, True)}
        if options.peers:
            runs["Hugging Face static"] = their_run(theirs, prompts, new, cache_implementation="static")
            runs["Hugging Face dynamic"] = their_run(theirs, prompts, new)
        record(rows, f"GPT-2 124M, batch {batch}, {prompt} + {new}", "tokens/s", batch * new, seconds(runs, 3, 2))


def marian(rows: Rows, options: argparse.Namespace) -> None:
    """The base translator, 128 sentences."""
    config = Seq2SeqConfig(vocab=58101, activation="silu", positions="halves", output_bias=True)
    ours, theirs = (
        for_inference(fresh(config, "cuda", torch.bfloat16), "packed"),
        their_marian("cuda", torch.bfloat16, 58101),
    )
    sources = tokens(128, 16, 58101)
    for beam in options.beams:
        runs: dict[str, Callable[[], object]] = {"glassformer": search(ours, sources, 20, beam, True)}
        if options.peers:
            runs["Hugging Face"] = their_run(theirs, sources, 20, num_beams=beam)
        work = f"Marian base, beam {beam}, 128 x (16 to 20)"
        record(rows, work, "sentences/s", 128, seconds(runs, 3, 2))


WORKS = {  # on the processor: kind of model, sentences, beam, tokens read, tokens written
    "GPT-2 124M, batch 1, 16 + 32": ("gpt", 1, 1, 16, 32),
    "Marian base, beam 1, 1 x (16 to 20)": ("marian", 1, 1, 16, 20),
    "Marian base, beam 4, 1 x (16 to 20)": ("marian", 1, 4, 16, 20),
    "Marian base, beam 1, 32 x (16 to 20)": ("marian", 32, 1, 16, 20),
    "Marian base, beam 4, 32 x (16 to 20)": ("marian", 32, 4, 16, 20),
}
VOCAB = {"gpt": 50257, "marian": 8000}
RUNNERS = ("glassformer packed", "glassformer int8", "Hugging Face", "CTranslate2 float32", "CTranslate2 int8")
PAUSE = 0.3  # seconds in which the threads of the last runner fall asleep


def processor(rows: Rows, options: argparse.Namespace) -> None:
    """Both models on the CPU, each runner in its own process because two thread pools slow each other down."""
    ask = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    start = [sys.executable, __file__, "runner", "--threads", str(options.threads), "--name"]
    runners = {name: subprocess.Popen([*start, name], **ask) for name in RUNNERS}

    def turn(name: str, work: str) -> float | None:
        stdin, stdout = runners[name].stdin, runners[name].stdout
        assert stdin is not None and stdout is not None
        stdin.write(work + "\n")
        stdin.flush()
        taken = json.loads(stdout.readline() or "null")
        time.sleep(PAUSE)
        return taken

    for work, (_, batch, _, _, new) in WORKS.items():
        times: dict[str, list[float]] = {}
        for round in range(options.rounds + 2):
            for name in RUNNERS:
                taken = turn(name, work)
                if taken is not None and round >= 2:
                    times.setdefault(name, []).append(taken)
        record(rows, work, "tokens/s", batch * new, times)
    for runner in runners.values():
        runner.communicate()


def runner(options: argparse.Namespace) -> None:
    """Run the task named on each input line, and print its seconds, or null if this runner cannot do it."""
    torch.set_num_threads(options.threads)
    models: dict[str, object] = {}
    runs: dict[str, Callable[[], object] | None] = {}
    for line in sys.stdin:
        work = line.strip()
        if work not in runs:
            runs[work] = run_of(options.name, WORKS[work], models, options.threads)
        run = runs[work]
        began = time.perf_counter()
        if run is not None:
            run()
        print(json.dumps(None if run is None else time.perf_counter() - began), flush=True)


def run_of(
    name: str, work: tuple[str, int, int, int, int], models: dict[str, object], threads: int
) -> Callable[[], object] | None:
    """The function that a runner calls for a task."""
    kind, batch, beam, read, new = work
    prompts = tokens(batch, read, VOCAB[kind])
    if not name.startswith("glassformer"):
        if kind not in models:
            make = their_gpt2 if kind == "gpt" else partial(their_marian, vocab=VOCAB[kind])
            models[kind] = make("cpu", torch.float32)
        if name == "Hugging Face":
            return their_run(models[kind], prompts, new, num_beams=beam)
        return (
            their_translator(models[kind], prompts, beam, new, threads, name.split()[1]) if kind == "marian" else None
        )
    config = (
        GPTConfig()
        if kind == "gpt"
        else Seq2SeqConfig(vocab=VOCAB[kind], activation="silu", positions="halves", output_bias=True)
    )
    if kind not in models:
        models[kind] = for_inference(fresh(config, "cpu", torch.float32), name.split()[1])  # pyright: ignore[reportArgumentType]
    model = models[kind]
    assert isinstance(model, Model)
    if beam > 1:
        return search(model, prompts, new, beam, False)
    return write(model, prompts, new, False)


def their_translator(
    model: object, sources: list[list[int]], beam: int, new: int, threads: int, kind: str
) -> Callable[[], object] | None:
    """CTranslate2 with the same weights, where it is installed."""
    try:
        import ctranslate2  # pyright: ignore[reportMissingImports]
        from ctranslate2.converters.transformers import (  # pyright: ignore[reportMissingImports]
            BartLoader,
            MarianMTLoader,
        )
    except ImportError:
        print("CTranslate2 is not installed: left out", file=sys.stderr)
        return None
    model.config.normalize_before = model.config.normalize_embedding = False  # pyright: ignore[reportAttributeAccessIssue]
    spec = BartLoader.get_model_spec(MarianMTLoader(), model)
    names = [str(i) for i in range(model.config.vocab_size)]  # pyright: ignore[reportAttributeAccessIssue]
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.decoder_start_token = names[0]
    spec.validate()
    words = [[str(i) for i in row] for row in sources]
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        translator = ctranslate2.Translator(folder, "cpu", compute_type=kind, intra_threads=threads)
    length = {"min_decoding_length": new, "max_decoding_length": new, "beam_size": beam}
    return partial(translator.translate_batch, words, max_batch_size=len(words), **length)


def main() -> None:
    """Run the benchmarks named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("where", choices=("gpu", "cpu", "runner"), help="runner: one of those that cpu starts")
    parser.add_argument("--name", default="", help="of a runner")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="*", default=("small", "marian", "large"), help="parts of the gpu run")
    parser.add_argument("--forms", nargs="*", default=("bfloat16",), help="of the 7B weights: bfloat16 int8 int4")
    parser.add_argument("--beams", nargs="*", type=int, default=(1, 4), help="of the translator")
    parser.add_argument("--no-peers", dest="peers", action="store_false")
    parser.add_argument(
        "--plain-attention", action="store_true", help="attention by its formula, for the compiler to fuse"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    if options.plain_attention:
        attention.kernel = attention.fn
    rows: Rows = []
    parts = {"small": small, "marian": marian, "large": large} if options.where == "gpu" else {"cpu": processor}
    with torch.no_grad():
        if options.where == "runner":
            return runner(options)
        for name, part in parts.items():
            if options.where == "cpu" or name in options.only:
                part(rows, options)
                if options.out:
                    about = {"torch": torch.__version__, "rows": rows}
                    if torch.cuda.is_available():
                        about["device"] = torch.cuda.get_device_name()
                    options.out.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
