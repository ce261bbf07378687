"""Full fine-tuning against LoRA: a translator that never saw a negation learns those of the phrase book.

The translator is trained once. Either way of fine-tuning gets as many steps and as many learning rates to try, and
keeps the one with the least validation loss on seeds of its own; then each is trained with ten other seeds and scored
on the same 1,000 pairs. Prints what each reached, and with `--out FILE` writes every run as JSON. The folder of one
merged model is opened in transformers, where that is installed, and its logits are compared.
"""

import argparse
import importlib.util
import json
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import torch

from glassformer.checkpoints.load import load
from glassformer.data.phrase_book import phrase_book
from glassformer.training.config import resolve
from glassformer.training.evaluate import evaluate
from glassformer.training.optimizer import trainable
from glassformer.training.run import Run, prepare
from glassformer.training.task import Metrics
from glassformer.training.tasks.translate import TranslationMetrics, encode_pairs

PAIRS, NEGATIONS, TESTED = 40_000, 4_000, 1_000
WORDS = {"not", "never", "nobody", "nothing"}
TUNING_SEEDS, SEEDS = (100, 101), tuple(range(10))
BASE = {
    "tokenizer.vocab_size": 1000, "model.dim": 256, "model.layers": 2, "model.heads": 4, "model.ffn_dim": 1024,
    "model.context": 64, "model.norm_first": "false", "model.positions": "halves", "recipe.steps": 1500,
    "recipe.learning_rate": 1e-3, "recipe.warmup_steps": 200,
}  # fmt: skip
COMMON = {
    "data.max_length": 48, "data.tokens_per_batch": 1024, "data.num_beams": 1, "data.validation_fraction": 0.1,
    "recipe.log_every": 100, "recipe.evaluate_every": 100, "recipe.save_every": 10_000, "run.precision": "float32",
    "run.compile": "no",
}  # fmt: skip
WAYS: Mapping[str, Mapping[str, object]] = {
    "full": {},
    "LoRA": {"lora.rank": 5, "lora.alpha": 5.0},
}
RATES = {"full": (5e-5, 1e-4, 2e-4, 5e-4, 1e-3), "LoRA": (1e-3, 2e-3, 5e-3, 1e-2, 2e-2)}


@dataclass(frozen=True)
class Tuning:
    """One run of fine-tuning: the folder of the data and the base, and how the base is tuned."""

    folder: str
    device: str
    way: str
    steps: int
    rate: float
    seed: int


@dataclass(frozen=True)
class Found:
    """What a run reached: its least validation loss, and its scores on the test pairs."""

    way: str
    steps: int
    rate: float
    seed: int
    trained: int
    validation: float
    loss: float
    bleu: float
    exact: float


def run_of(settings: Mapping[str, object], out: Path | None) -> Run:
    """A translator, not yet trained."""
    words = [f"{key}={value}" for key, value in {**COMMON, **settings}.items()]
    return prepare(resolve("translate", words=words), out, lambda text: None)


def scores_of(metrics: Metrics) -> TranslationMetrics:
    """The scores of greedy translations."""
    assert isinstance(metrics, TranslationMetrics)
    return metrics


def tuned(asked: Tuning) -> Found:
    """Fine-tune the base once; the weights of the least validation loss are scored."""
    folder = Path(asked.folder)
    settings = {
        "data.path": folder / "negations.tsv", "data.test": folder / "test.tsv", "run.init": folder / "base",
        "recipe.steps": asked.steps, "recipe.learning_rate": asked.rate, "recipe.seed": asked.seed,
        "recipe.warmup_steps": asked.steps // 10, "run.device": asked.device, **WAYS[asked.way],
    }  # fmt: skip
    out = folder / f"tuned-{asked.way}" if asked.seed == SEEDS[0] else None  # one of each way is kept
    run = run_of(settings, out)
    trained = sum(weight.numel() for weight in trainable(run.model).values())
    least = min(log.validation for log in run.train() if log.validation is not None)
    metrics = scores_of(run.evaluate())
    bleu, exact = metrics.scores.bleu.score, metrics.scores.exact
    return Found(asked.way, asked.steps, asked.rate, asked.seed, trained, least, metrics.loss, bleu, exact)


def write_data(folder: Path) -> None:
    """Pairs without a negation, and negations to fine-tune on and to test on."""
    pairs = phrase_book(PAIRS)
    negated = [bool(WORDS & set(source.strip(".?").lower().split())) for source, _ in pairs]
    rest = [pair for pair, no in zip(pairs, negated, strict=True) if not no]
    negations = [pair for pair, no in zip(pairs, negated, strict=True) if no][: NEGATIONS + TESTED]
    parts = {"rest": rest, "negations": negations[:NEGATIONS], "test": negations[NEGATIONS:]}
    for part, rows in parts.items():
        (folder / f"{part}.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in rows))


def best_rates(found: Sequence[Found]) -> dict[str, float]:
    """The learning rate of each way with the least mean validation loss."""
    means = {
        (way, rate): statistics.mean(each.validation for each in found if (each.way, each.rate) == (way, rate))
        for way in WAYS
        for rate in RATES[way]
    }
    return {way: min(RATES[way], key=lambda rate: means[way, rate]) for way in WAYS}


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation."""
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"


def report(tried: Sequence[Found], found: Sequence[Found], total: int) -> None:
    """Print a row for each learning rate, a row for each way, and the paired difference."""
    for way in WAYS:
        for rate in RATES[way]:
            rows = [each for each in tried if (each.way, each.rate) == (way, rate)]
            loss, bleu = (
                statistics.mean(values) for values in zip(*((r.validation, r.bleu) for r in rows), strict=True)
            )
            print(f"{way}, learning rate {rate:g}: validation loss {loss:.4f}, BLEU {bleu:.2f}")
    by_way = {way: sorted((each for each in found if each.way == way), key=lambda each: each.seed) for way in WAYS}
    for way, rows in by_way.items():
        bleu, loss = [each.bleu for each in rows], statistics.mean(each.loss for each in rows)
        seeds = ", ".join(f"{each:.2f}" for each in bleu)
        share = f"{rows[0].trained:,} parameters, {rows[0].trained / total:.2%}"
        print(f"{way}, learning rate {rows[0].rate:g}, {share}: BLEU {seeds}: {spread(bleu)}, loss {loss:.4f}")
    differences = [one.bleu - other.bleu for one, other in zip(by_way["LoRA"], by_way["full"], strict=True)]
    print(f"LoRA less full, seed by seed: {spread(differences)}")


def difference_elsewhere(folder: Path) -> float:
    """The largest difference between the logits of transformers and ours for a merged model, over ten test pairs."""
    theirs = importlib.import_module("transformers").AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    ours = load(folder)
    assert ours.tokenizer is not None
    lines = (folder.parent / "test.tsv").read_text().splitlines()[:10]
    pairs = [(source, target) for source, target in (line.split("\t") for line in lines)]
    largest = 0.0
    for source, target in encode_pairs(ours.tokenizer, pairs):
        ids, written = torch.tensor([source]), torch.tensor([[ours.tokenizer.decoder_start, *target]])
        with torch.no_grad():
            found = theirs(input_ids=ids, decoder_input_ids=written).logits
            largest = max(largest, float((found - ours.model(ids, written)).abs().max()))
    return largest


def main() -> None:
    """Train the base, try the learning rates, and fine-tune with each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--workers", type=int, default=1, help="processes that fine-tune side by side")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder)
        base = run_of({**BASE, "data.path": folder / "rest.tsv", "run.device": options.device}, folder / "base")
        list(base.train())
        total = load(folder / "base").model.parameter_count()
        before = scores_of(evaluate(folder / "base", str(folder / "test.tsv")))
        print(f"before: BLEU {before.scores.bleu.score:.2f}, {total:,} parameters", flush=True)
        how = (name, options.device)
        with ProcessPoolExecutor(options.workers, get_context("spawn")) as pool:
            asked = [Tuning(*how, way, options.steps, r, s) for s in TUNING_SEEDS for way in WAYS for r in RATES[way]]
            tried = list(pool.map(tuned, asked))
            rates = best_rates(tried)
            asked = [Tuning(*how, way, options.steps, rates[way], seed) for seed in SEEDS for way in WAYS]
            found = list(pool.map(tuned, asked))
        report(tried, found, total)
        if importlib.util.find_spec("transformers"):
            print(f"logits in transformers differ by at most {difference_elsewhere(folder / 'tuned-LoRA'):.1e}")
        if options.out is not None:
            options.out.write_text(json.dumps([asdict(each) for each in (*tried, *found)], indent=1))


if __name__ == "__main__":
    main()
