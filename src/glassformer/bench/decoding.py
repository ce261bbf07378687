"""Decoding beside Hugging Face, gpt-fast and CTranslate2: whole calls with random weights, prefill included.

On a CPU each runner has a process of its own, because two thread pools slow each other down.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial

import torch

from glassformer.bench.distance import require_near
from glassformer.bench.gpt_fast import GPT_FAST, check_gpt_fast, gpt_fast_runner
from glassformer.bench.measure import OURS, Measurement, Runner, Step, TimedWork, measure
from glassformer.bench.options import BenchOptions
from glassformer.bench.peer_decoding import HUGGING_FACE, ctranslate2_step, hugging_face_generator, hugging_face_step
from glassformer.bench.peer_gpt2 import hugging_face_apart
from glassformer.bench.peers import load_package
from glassformer.decoding.beam import BeamSearch, run_search
from glassformer.decoding.config import GenerationConfig
from glassformer.decoding.loop import DecodeLoop
from glassformer.decoding.sampling import SpecialTokens
from glassformer.inference.prepare import Generator, for_inference, inference_mode
from glassformer.layers.config import Config
from glassformer.layers.model import Model
from glassformer.models.gpt import GPTConfig
from glassformer.models.llama import LlamaConfig
from glassformer.models.registry import build
from glassformer.models.seq2seq import Seq2SeqConfig

INT8 = f"{OURS} int8"
STATIC, DYNAMIC = f"{HUGGING_FACE} static", f"{HUGGING_FACE} dynamic"
CT2 = ("CTranslate2 float32", "CTranslate2 int8")
PEERS = (INT8, HUGGING_FACE, STATIC, DYNAMIC, GPT_FAST, *CT2)
PAUSE = 0.3  # seconds in which the threads of the last runner fall asleep
SPECIAL = 5  # ids below are never drawn


@dataclass(frozen=True, kw_only=True)
class DecodingRow:
    """A model, how many texts it continues or translates at once, and the tokens read and written for each."""

    config: Config
    batch: int
    read: int
    write: int
    beam: int = 1
    device: str = "cuda"
    default: bool = True
    runners: tuple[str, ...] = ()

    @property
    def translates(self) -> bool:
        """Whether the model is a translator."""
        return isinstance(self.config, Seq2SeqConfig)


def _marian(vocab: int) -> Seq2SeqConfig:
    return Seq2SeqConfig(vocab=vocab, activation="silu", positions="halves", output_bias=True)


def _cpu(config: Config, batch: int, write: int, beam: int = 1) -> DecodingRow:
    peers = (INT8, HUGGING_FACE, *(CT2 if isinstance(config, Seq2SeqConfig) else ()))
    return DecodingRow(config=config, batch=batch, read=16, write=write, beam=beam, device="cpu", runners=peers)


_CACHES = (STATIC, DYNAMIC)
_MARIAN = {"config": _marian(58101), "batch": 128, "read": 16, "write": 20, "runners": (HUGGING_FACE,)}
ROWS = {
    "gpt2": DecodingRow(config=GPTConfig(), batch=1, read=64, write=256, runners=_CACHES),
    "gpt2-64": DecodingRow(config=GPTConfig(), batch=64, read=64, write=128, runners=_CACHES),
    "marian": DecodingRow(**_MARIAN),  # pyright: ignore[reportArgumentType]
    "marian-beam": DecodingRow(**_MARIAN, beam=4),  # pyright: ignore[reportArgumentType]
    "llama-110m": DecodingRow(
        config=LlamaConfig(dim=768, layers=12, heads=12, ffn_dim=2048), batch=1, read=16, write=128, runners=(GPT_FAST,)
    ),
    "llama-7b": DecodingRow(
        config=LlamaConfig(), batch=1, read=16, write=128, default=False, runners=(INT8, GPT_FAST)
    ),
    "gpt2-cpu": _cpu(GPTConfig(), 1, 32),
    "marian-cpu": _cpu(_marian(8000), 1, 20),
    "marian-cpu-beam": _cpu(_marian(8000), 1, 20, beam=4),
    "marian-cpu-32": _cpu(_marian(8000), 32, 20),
    "marian-cpu-32-beam": _cpu(_marian(8000), 32, 20, beam=4),
}  # fmt: skip


def row_called(name: str, tiny: bool) -> DecodingRow:
    """A row, or the same with the smallest sizes."""
    row = ROWS[name]
    if not tiny:
        return row
    small = {"vocab": 40, "dim": 16, "layers": 1, "heads": 2, "ffn_dim": 32}
    small |= {"context": 64} if not row.translates else {}
    config = replace(row.config, **small)  # pyright: ignore[reportArgumentType]
    return replace(row, config=config, batch=min(row.batch, 2), read=4, write=4)


def decoding(options: BenchOptions) -> list[Measurement]:
    """Measure the rows of the device."""
    found: list[Measurement] = []
    with ExitStack() as stack, torch.no_grad():
        processes: dict[str, subprocess.Popen[str]] = {}
        for name, row in ROWS.items():
            if row.device == options.device.device.type and options.row(name, ROWS, row.default):
                found += _measure(name, row_called(name, options.tiny), options, partial(_ask, stack, processes))
    return found


Ask = Callable[[str, str, BenchOptions], None]


def _measure(name: str, row: DecodingRow, options: BenchOptions, ask: Ask) -> list[Measurement]:
    here = row.device == "cuda"
    make = partial(_runner, row, options) if here else partial(_elsewhere, name, row, options, ask)
    runners = options.runners({each: partial(make, each) for each in (OURS, *row.runners)})
    there = {runner.name for runner in runners}
    apart: dict[str, float] = {}
    if isinstance(row.config, GPTConfig) and (theirs := there & {HUGGING_FACE, STATIC, DYNAMIC}):
        apart = dict.fromkeys(theirs, hugging_face_apart(row.config, options))
        require_near(HUGGING_FACE, max(apart.values()))
    if GPT_FAST in there and isinstance(row.config, LlamaConfig):
        apart = {GPT_FAST: check_gpt_fast(row.config, options)}
    sentences = row.translates and here
    work = TimedWork(
        suite="decode", name=name, unit="sentences/s" if sentences else "tokens/s", steps=1, warm_up=2, apart=apart,
        amount=row.batch * (1 if sentences else row.write),
    )  # fmt: skip
    return measure(work, runners, options.rounds, options.device.device, options.say)


def _runner(row: DecodingRow, options: BenchOptions, name: str) -> Runner:
    """A runner in this process."""
    if name == GPT_FAST:
        assert isinstance(row.config, LlamaConfig)
        return gpt_fast_runner(row.config, row.batch, row.read, row.write, options)
    if name.startswith(HUGGING_FACE):
        load_package("transformers")
    return Runner(name, lambda: decoding_step(name, row, options.device.device, torch.get_num_threads()))


def _elsewhere(name: str, row: DecodingRow, options: BenchOptions, ask: Ask, runner: str) -> Runner:
    """A runner in a process of its own."""
    if runner == HUGGING_FACE:
        load_package("transformers")
    if runner in CT2:
        load_package("CTranslate2")

    def start() -> Step:
        return lambda: ask(runner, name, options)

    return Runner(runner, start, finish=lambda: time.sleep(PAUSE))


def _ask(
    stack: ExitStack, processes: dict[str, subprocess.Popen[str]], runner: str, row: str, options: BenchOptions
) -> None:
    """Let the process of a runner do a row once."""
    if runner not in processes:
        words = [runner, str(torch.get_num_threads()), "tiny" if options.tiny else "full"]
        processes[runner] = stack.enter_context(_process(words))
    stdin, stdout = processes[runner].stdin, processes[runner].stdout
    assert stdin is not None and stdout is not None
    stdin.write(row + "\n")
    stdin.flush()
    if stdout.readline().strip() != "done":
        raise RuntimeError(f"the process of {runner} ended")


@contextmanager
def _process(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "glassformer.bench.decoding", *words]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.communicate()


def decoding_step(name: str, row: DecodingRow, device: torch.device, threads: int) -> Step:
    """What a runner calls for a row: everything that is made once is made here."""
    vocab = row.config.vocab  # pyright: ignore[reportAttributeAccessIssue] - every model here has one
    prompts = torch.randint(SPECIAL, vocab, (row.batch, row.read)).tolist()
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    if name.startswith(OURS):
        weights = "int8" if name == INT8 else "packed"
        model = for_inference(_fresh(row.config, device, dtype), weights)
        assert isinstance(model, Generator)
        return _our_step(model, prompts, row, device.type == "cuda")
    assert isinstance(row.config, GPTConfig | Seq2SeqConfig)
    theirs = hugging_face_generator(row.config, device, dtype)
    if name in CT2:
        return ctranslate2_step(theirs, prompts, row.beam, row.write, threads, name.split()[1])
    cache = {"cache_implementation": "static"} if name == STATIC else {}
    return hugging_face_step(theirs, prompts, row.write, num_beams=row.beam, **cache)


def _fresh(config: Config, device: torch.device, dtype: torch.dtype) -> Model:
    """A model with random weights, built on the device."""
    model = build(config, device="meta").to_empty(device=device).to(dtype).eval()
    for name, parameter in model.named_parameters():
        parameter.data.normal_(0, 0.02) if parameter.dim() > 1 else parameter.data.fill_(float("norm" in name))
    return model.requires_grad_(False)


def _our_step(model: Generator, prompts: list[list[int]], row: DecodingRow, compiled: bool) -> Step:
    """Greedy decoding or beam search of exactly this many tokens."""
    config = GenerationConfig(max_new_tokens=row.write, num_beams=row.beam, compile=compiled)
    limits = [row.write] * len(prompts)

    def write() -> None:
        with inference_mode(model):
            loop = DecodeLoop(model, prompts, config, SpecialTokens())
            written = 0
            while written < row.write:
                written += len(loop.next_tokens()[0])

    def search() -> None:
        with inference_mode(model):
            run_search(BeamSearch(model, prompts, limits, config, SpecialTokens()), limits)

    return search if row.translates or row.beam > 1 else write


def serve(name: str, threads: int, tiny: bool) -> None:
    """Do the row named on each input line, and say when it is done."""
    torch.set_num_threads(threads)
    steps: dict[str, Step] = {}
    with torch.no_grad():
        for line in sys.stdin:
            row = line.strip()
            if row not in steps:
                steps[row] = decoding_step(name, row_called(row, tiny), torch.device("cpu"), threads)
            steps[row]()
            print("done", flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "tiny")
