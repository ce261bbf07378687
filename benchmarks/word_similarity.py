"""Word vectors against people's ratings and analogy questions: `python -m benchmarks.word_similarity DATA VECTORS...`.

DATA is a folder of similarity sets (word, word, rating on each line of EN-*.txt) and, if it is there, of
questions-words.txt or questions-words.txt.gz. VECTORS are files of word vectors or folders of skip-gram models; random
vectors for the words of the first are measured beside them. Prints rank correlation and coverage of each set.
"""

import argparse
from pathlib import Path

import torch

from glassformer.checkpoints.vectors import WordVectors
from glassformer.checkpoints.word_tests import analogy_scores, read_questions, read_rated_pairs, similarity_score
from glassformer.training.initial_vectors import open_vectors

QUESTIONS = ("questions-words.txt", "questions-words.txt.gz")


def shown(value: float | None, covered: int, of: int) -> str:
    """A figure with its coverage."""
    return f"{'-' if value is None else f'{value:.3f}':>6} ({covered:,} of {of:,})"


def report(name: str, vectors: WordVectors, data: Path) -> None:
    """Print a line for each similarity set, and for each section of the analogies."""
    print(f"{name}: {len(vectors.words):,} words, {vectors.vectors.shape[1]} dimensions", flush=True)
    for path in sorted(data.glob("EN-*.txt")):
        found = similarity_score(vectors, read_rated_pairs(path))
        print(f"  {path.stem:<32} {shown(found.correlation, found.covered, found.pairs)}", flush=True)
    for path in (data / each for each in QUESTIONS if (data / each).exists()):
        for score in analogy_scores(vectors, read_questions(path)):
            line = f"analogies: {score.section}"
            print(f"  {line:<32} {shown(score.accuracy, score.covered, score.questions)}", flush=True)


def main() -> None:
    """Measure each of the vectors, then random ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("vectors", nargs="+")
    parser.add_argument("--seeds", type=int, default=3, help="number of random vectors to measure")
    given = parser.parse_args()
    opened = {name: open_vectors(name) for name in given.vectors}
    for name, vectors in opened.items():
        report(name, vectors, given.data)
    first = next(iter(opened.values()))
    for seed in range(given.seeds):
        drawn = torch.randn(first.vectors.shape, generator=torch.Generator().manual_seed(seed))
        report(f"random, seed {seed}", WordVectors(first.words, drawn), given.data)


if __name__ == "__main__":
    main()
