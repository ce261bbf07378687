"""Word vectors trained on a large text, in several ways at once: `python -m benchmarks.skip_gram_books TEXT DATA OUT`.

TEXT is the text, DATA a folder of similarity sets (EN-*.txt), OUT a new folder. The tokenizer is trained and the text
encoded once; then recipes/books-skip-gram.toml is trained with each of VARIANTS in a process of its own, and the
vectors are measured as in benchmarks.word_similarity. `--set recipe.steps=100` changes every run.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.word_similarity import report
from glassformer.data.files import read_texts
from glassformer.data.shards import token_shard
from glassformer.durable import cache_folder
from glassformer.text.learn_tokenizer import learn_tokenizer
from glassformer.training.initial_vectors import open_vectors

RECIPE = "recipes/books-skip-gram.toml"
VOCAB = 30000
VARIANTS: dict[str, list[str]] = {
    "recipe": [],
    "recipe-seed1": ["recipe.seed=1"],
    "higher-rate": ["recipe.learning_rate=2e-2"],
    "wide-window": ["data.window=10"],
}


def main() -> None:
    """Prepare once, train all variants at once, measure each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="*", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument("--set", nargs="*", default=[], dest="settings", help="settings of every run")
    given = parser.parse_args()
    began = time.perf_counter()
    given.out.mkdir(parents=True)
    tokenizer = learn_tokenizer((text.text for text in read_texts(given.text)), "plain_words", VOCAB)
    tokenizer.save(given.out / "tokenizer")
    shard = token_shard(lambda: (text.text for text in read_texts(given.text)), tokenizer, cache_folder())
    print(f"{len(shard.tokens):,} tokens, prepared in {time.perf_counter() - began:.0f} s", flush=True)
    running = {}
    for name in given.only:
        words = [f"data.path={given.text}", f"tokenizer.file={given.out / 'tokenizer'}", *VARIANTS[name]]
        command = [sys.executable, "-m", "glassformer", "train", "--config", RECIPE, "--out", str(given.out / name)]
        with (given.out / f"{name}.log").open("w") as log:
            running[name] = subprocess.Popen([*command, *words, *given.settings], stdout=log, stderr=log)
    for name, process in running.items():
        process.wait()
        last = (given.out / f"{name}.log").read_text().splitlines()[-3:]
        print(
            f"{name}: status {process.returncode}, {time.perf_counter() - began:.0f} s", *last, sep="\n  ", flush=True
        )
        if process.returncode == 0:
            report(name, open_vectors(given.out / name), given.data)


if __name__ == "__main__":
    main()
