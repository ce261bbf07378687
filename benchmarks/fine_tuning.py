"""Full fine-tuning against LoRA: a translator that never saw a negation learns those of the phrase book.

`python benchmarks/fine_tuning.py STEPS` trains the translator once, and fine-tunes it with three seeds in each way;
`python benchmarks/fine_tuning.py STEPS LoRA` in one way alone.
"""

import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from glassformer.checkpoints.load import load
from glassformer.data.phrase_book import phrase_book
from glassformer.training.config import resolve
from glassformer.training.evaluate import evaluate
from glassformer.training.optimizer import trainable
from glassformer.training.run import Run, prepare
from glassformer.training.task import Metrics
from glassformer.training.tasks.translate import TranslationMetrics

PAIRS, NEGATIONS, SEEDS = 40_000, 4_000, (0, 1, 2)
WORDS = {"not", "never", "nobody", "nothing"}
BASE = {
    "tokenizer.vocab_size": 1000, "model.dim": 96, "model.layers": 2, "model.heads": 4, "model.ffn_dim": 384,
    "model.context": 64, "recipe.steps": 1000, "recipe.learning_rate": 4e-3,
}  # fmt: skip
COMMON = {
    "data.max_length": 48, "data.tokens_per_batch": 1024, "data.num_beams": 1, "data.validation_fraction": 0.1,
    "recipe.log_every": 100, "recipe.evaluate_every": 100, "recipe.save_every": 1000, "run.device": "cpu",
    "run.precision": "fp32",
}  # fmt: skip
WAYS: Mapping[str, Mapping[str, object]] = {
    "full": {"recipe.learning_rate": 1e-3},
    "LoRA": {
        "recipe.learning_rate": 1e-2,
        "lora.rank": 1,
        "lora.alpha": 4.0,
        "lora.targets": "blocks",
        "lora.modules_to_save": "*norm",
    },
}


def run_of(settings: Mapping[str, object], out: Path) -> Run:
    """A translator, not yet trained."""
    words = [f"{key}={value}" for key, value in {**COMMON, **settings}.items()]
    return prepare(resolve("translate", words=words), out, lambda text: None)


def bleu_of(metrics: Metrics) -> float:
    """The BLEU of greedy translations."""
    assert isinstance(metrics, TranslationMetrics)
    return metrics.scores.bleu.score


def main() -> None:
    """Print BLEU and loss on held-out negations and the number of parameters trained, for each way and seed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs = phrase_book(PAIRS)
        negated = [bool(WORDS & set(source.strip(".?").lower().split())) for source, _ in pairs]
        rest = [pair for pair, no in zip(pairs, negated, strict=True) if not no]
        negations = [pair for pair, no in zip(pairs, negated, strict=True) if no][:NEGATIONS]
        for part, rows in (("rest", rest), ("negations", negations)):
            (folder / f"{part}.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in rows))
        base = run_of({**BASE, "data.path": folder / "rest.tsv"}, folder / "base")
        list(base.train())
        total = load(folder / "base").model.parameter_count()
        (folder / "few.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in negations[:300]))
        before = evaluate(folder / "base", str(folder / "few.tsv"))
        print(f"before: BLEU {bleu_of(before):.1f}, loss {before.loss:.4f}, {total:,} parameters", flush=True)
        for way in sys.argv[2:] or WAYS:
            changes, steps = WAYS[way], sys.argv[1]
            found, trained = list[float](), 0
            for seed in SEEDS:
                tuning = {"data.path": folder / "negations.tsv", "run.init": folder / "base", "recipe.steps": steps}
                run = run_of({**tuning, **changes, "recipe.seed": seed}, folder / f"{way}-{seed}")
                trained = sum(p.numel() for p in trainable(run.model).values())
                list(run.train())
                metrics = run.evaluate()
                found.append(bleu_of(metrics))
                print(f"{way}, seed {seed}: BLEU {found[-1]:.1f}, loss {metrics.loss:.4f}", flush=True)
            mean, spread = statistics.mean(found), statistics.stdev(found)
            print(f"{way}: BLEU {mean:.1f} ± {spread:.1f}, {trained / total:.2%} of the parameters", flush=True)


if __name__ == "__main__":
    main()
