"""One classifier, four embeddings: `python -m benchmarks.where_embeddings_come_from TABLE.tsv VECTORS [--seeds 3]`.

TABLE has a label and a text on each line, VECTORS are word vectors (GloVe, fastText, word2vec). The same encoder is
trained with random embeddings that stay, with random ones that are learned, with the given vectors that stay, and with
the given vectors that are learned too. All four share a tokenizer of the words that have a vector. A third of the table
is held out, so that many of its words are never trained on.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch

from glassformer.checkpoints.vectors import WordVectors, load_vectors
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.training.run import prepare_task
from glassformer.training.tasks.classify import ClassifierMetrics

SPECIAL = 5  # tokens of a tokenizer beside its words
SETTINGS: dict[str, object] = {
    "data.validation_fraction": 0.33,
    "data.max_length": 16, "data.batch_size": 32, "model.context": 16, "model.dim": 64, "model.layers": 1,
    "model.heads": 4, "model.ffn_dim": 128, "model.dropout": 0.1, "recipe.steps": 600, "recipe.learning_rate": 2e-3,
    "recipe.evaluate_every": 100, "recipe.initialization": "xavier_uniform",
    "recipe.weight_decay": 0.1, "run.device": "cpu", "run.compile": "no",
    "run.precision": "float32",
}  # fmt: skip


def accuracy(table: str, seed: int, more: dict[str, object]) -> float:
    """Accuracy on the held-out third, of the weights with the best loss on it."""
    settings = {**SETTINGS, "data.path": table, "recipe.seed": seed, **more}
    run = prepare_task("classify", settings, size="tiny")
    for _ in run.train():
        pass
    metrics = run.evaluate()
    assert isinstance(metrics, ClassifierMetrics)
    return metrics.accuracy


def main() -> None:
    """Train each of the four with every seed, and print the mean and the spread of their accuracies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table")
    parser.add_argument("vectors")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    vectors, began = load_vectors(given.vectors), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        learn_tokenizer(vectors.words, "plain_words", len(vectors.words) + SPECIAL).save(folder)
        shared = {"tokenizer.file": folder, "model.embedding_dim": vectors.vectors.shape[1]}
        random = str(Path(folder) / "random.vec")
        drawn = torch.randn(vectors.vectors.shape, generator=torch.Generator().manual_seed(0))
        WordVectors(vectors.words, drawn).save(random)
        ways = {
            "random, frozen": {"run.vectors": random, "run.freeze": "embedding"},
            "random, learned": {},
            "pretrained, frozen": {"run.vectors": given.vectors, "run.freeze": "embedding"},
            "pretrained, learned": {"run.vectors": given.vectors},
        }
        for name, more in ways.items():
            found = [accuracy(given.table, seed, {**shared, **more}) for seed in range(given.seeds)]
            spread = statistics.stdev(found) if len(found) > 1 else 0.0
            each = ", ".join(f"{value:.3f}" for value in found)
            seconds = time.perf_counter() - began
            print(f"{name:<20} {statistics.mean(found):.3f} ± {spread:.3f}   {each}   {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
