"""Train a CLIP on emoji and name emoji that it has never seen; see docs/clip.md for what is held out and measured.

python -m benchmarks.emoji_clip data/emoji runs/emoji-clip --vectors data/glove.npz --seed 0 [--held-out concepts]

`data/emoji` holds noto_32x32.npz (pictures) and captions.tsv.gz (names and keywords, one row for each picture).
"""

import argparse
import gzip
import json
import re
import sys
import time
from pathlib import Path

import numpy as np
import torch

import glassformer as gf
from glassformer.data.captions import read_pictures
from glassformer.equations.metrics import recall_at_k
from glassformer.inference.pair_embeddings import embed_images, embed_texts, ranks_of
from glassformer.text.learn_tokenizer import learn_tokenizer, with_last_eos
from glassformer.training.run import prepare_task

TEST, VALIDATION = 0.1, 0.05  # of the concepts
VARIANTS = 8  # of a concept in the training data at most; the others are a test of names put together anew
MODIFIERS = {"FE0F", "200D", "2640", "2642", "27A1", "1F3FB", "1F3FC", "1F3FD", "1F3FE", "1F3FF"}
PERSON = {  # man and woman to person, boy and girl to child, and so on
    "1F468": "1F9D1", "1F469": "1F9D1", "1F466": "1F9D2", "1F467": "1F9D2", "1F474": "1F9D3", "1F475": "1F9D3",
    "1F934": "1FAC5", "1F478": "1FAC5", "1F385": "1F9D1-1F384", "1F936": "1F9D1-1F384",
}  # fmt: skip
GENDER = re.compile(r"\b(man|woman|person|men|women|people|boy|girl|mrs|mr|mx|prince|princess)\b")
PENALTIES = [step / 100 for step in range(51)]  # of names that have a picture, in units of the cosine
Row = dict[str, str]


def read_rows(folder: Path) -> list[Row]:
    """The rows of the captions, in lower case but for the categories."""
    with gzip.open(folder / "captions.tsv.gz", "rt", encoding="utf-8") as file:
        heading, *lines = (line.rstrip("\n").split("\t") for line in file)
    rows = [dict(zip(heading, line, strict=True)) for line in lines]
    return [row | {"name": row["name_en"].lower(), "keywords": row["keywords_en"].lower()} for row in rows]


def concepts(rows: list[Row]) -> list[int]:
    """A number for each row: the same for variants of one emoji by skin tone, gender or direction."""
    parent: dict[str, str] = {}

    def root(key: str) -> str:
        while parent.setdefault(key, key) != key:
            key = parent[key]
        return key

    for row in rows:
        codes = [PERSON.get(code, code) for code in row["codepoints"].split("-") if code not in MODIFIERS]
        name = " ".join(GENDER.sub("", row["name"].partition(":")[0] if row["skin_tone"] else row["name"]).split())
        first, *others = ["codes " + "-".join(codes), *([f"name {name}"] if name else [])]
        for other in others:
            parent[root(other)] = root(first)
    numbers: dict[str, int] = {}
    keys = (
        "codes " + "-".join(PERSON.get(c, c) for c in r["codepoints"].split("-") if c not in MODIFIERS) for r in rows
    )
    return [numbers.setdefault(root(key), len(numbers)) for key in keys]


def split(rows: list[Row], seed: int, by: str) -> dict[str, list[int]]:
    """Rows for training, validation and test, drawn by emoji, or by concept with more variants of those trained on."""
    if by == "emoji":
        order = np.random.default_rng(seed).permutation(len(rows)).tolist()
        test, validation = round(TEST * len(rows)), round((TEST + VALIDATION) * len(rows))
        parts = {"test": order[:test], "validation": order[test:validation], "train": order[validation:]}
        return {part: sorted(numbers) for part, numbers in parts.items()} | {"variants": []}
    groups: dict[int, list[int]] = {}
    for number, concept in enumerate(concepts(rows)):
        groups.setdefault(concept, []).append(number)
    random = np.random.default_rng(seed)
    found: dict[str, list[int]] = {"train": [], "validation": [], "test": [], "variants": []}
    order = random.permutation(len(groups)).tolist()
    test, validation = round(TEST * len(groups)), round((TEST + VALIDATION) * len(groups))
    for at, concept in enumerate(order):
        members = random.permutation(groups[concept]).tolist()
        if at < validation:
            found["test" if at < test else "validation"] += members
        else:
            found["train"], found["variants"] = (
                found["train"] + members[:VARIANTS],
                found["variants"] + members[VARIANTS:],
            )
    return {part: sorted(numbers) for part, numbers in found.items()}


def captions(row: Row) -> str:
    """The name, then what else a picture may be called in training."""
    words = row["keywords"].replace("|", " ")
    kind = f"{row['category']} {row['subcategory'].replace('-', ' ')}".lower()
    return "|".join([row["name"], words, f"{row['name']} {words}", f"{row['name']} {kind}", f"{kind} {words}", kind])


def write_tables(rows: list[Row], parts: dict[str, list[int]], folder: Path) -> None:
    """A table of each part, and one of all names."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, numbers in [*parts.items(), ("all", list(range(len(rows))))]:
        lines = [f"{number}\t{captions(rows[number])}\n" for number in numbers]
        (folder / f"{part}.tsv").write_text("image\tcaption\n" + "".join(lines), encoding="utf-8")


def read_vectors(path: Path) -> dict[str, np.ndarray]:
    """Word vectors by word, from a .npz file of `words` and `vectors`, or from a text file."""
    if path.suffix != ".npz":
        found = gf.load_vectors(path)
        return dict(zip(found.words, found.vectors.numpy(), strict=True))
    with np.load(path) as arrays:
        return dict(zip(bytes(arrays["words"]).decode().split("\n"), arrays["vectors"].astype(np.float32), strict=True))


def forms(word: str) -> list[str]:
    """A word, and words that it may be a form of, for which there may be a vector."""
    stems = [word[: -len(end)] for end in ("s", "es", "ing", "ed", "er", "ly", "wards") if word.endswith(end)]
    stems += [stem[:-1] for stem in stems if len(stem) > 2 and stem[-1] == stem[-2]]
    return [word, *stems, *(f"{stem}e" for stem in stems)]


def set_embedding(model: torch.nn.Module, tokens: list[str], vectors: dict[str, np.ndarray]) -> int:
    """Give the tokens of known words their vectors, turned into the model's dimension, and freeze the table."""
    weight = model.embedding.weight
    size = len(next(iter(vectors.values())))
    turn = torch.linalg.qr(torch.randn(weight.shape[1], size, generator=torch.Generator().manual_seed(0)))[0].T
    spread, known = float(np.mean([vector.std() for vector in vectors.values()])), 0
    with torch.no_grad():
        weight.mul_(5)
        for id, token in enumerate(tokens):
            form = next((form for form in forms(token.strip()) if form in vectors), None)
            if form is not None and len(token.strip()) > 1:
                weight[id] = 0.1 * torch.from_numpy(vectors[form]) / spread @ turn
                known += 1
    weight.requires_grad_(False)
    return known


def measure(folder: Path, data: Path, rows: list[Row], parts: dict[str, list[int]]) -> dict[str, object]:
    """Recall among all names on emoji never seen, and zero-shot accuracy of their categories."""
    loaded = gf.load(folder, "cuda" if torch.cuda.is_available() else "cpu")
    pictures, names = read_pictures(data / "noto_32x32.npz"), [row["name"] for row in rows]
    text = embed_texts(loaded.model, loaded.tokenizer, names)
    seen = torch.zeros(len(names))
    seen[parts["train"] + parts["variants"]] = 1
    cosines = {
        part: embed_images(loaded.model, pictures[parts[part]]) @ text.T
        for part in ("validation", "test", "variants")
        if parts[part]
    }

    def ranks(part: str, penalty: float) -> torch.Tensor:
        right = torch.tensor(parts[part])[:, None] == torch.arange(len(names))
        return ranks_of(cosines[part] - penalty * seen, right)

    number = concepts(rows)
    found: dict[str, object] = {"names": len(names), "chance of recall at 5": 5 / len(names)}
    best = max(PENALTIES, key=lambda penalty: float(recall_at_k(ranks("validation", penalty), 5)))
    for what, part, penalty in (
        ("test, all names", "test", 0.0), ("test, names with a picture last", "test", 9.0),
        ("test, names with a picture less likely", "test", best), ("new variants, all names", "variants", 0.0),
    ):  # fmt: skip
        if part not in cosines:
            continue
        rank = ranks(part, penalty)
        each: dict[int, list[float]] = {}
        for row, value in zip(parts[part], rank.tolist(), strict=True):
            each.setdefault(number[row], []).append(value <= 5)
        by_concept = float(np.mean([np.mean(values) for values in each.values()]))
        recall = {f"recall at {k}": round(float(recall_at_k(rank, k)), 4) for k in (1, 5, 10)}
        found[what] = {
            "pictures": len(rank),
            "concepts": len(each),
            **recall,
            "recall at 5 by concept": round(by_concept, 4),
        }
    kinds = sorted({row["category"] for row in rows})
    labels = embed_texts(loaded.model, loaded.tokenizer, [kind.lower() for kind in kinds])
    guess = (embed_images(loaded.model, pictures[parts["test"]]) @ labels.T).argmax(-1).tolist()
    right = [kinds[g] == rows[r]["category"] for g, r in zip(guess, parts["test"], strict=True)]
    common = max(np.bincount([kinds.index(rows[r]["category"]) for r in parts["test"]])) / len(right)
    each = {}
    for row, hit in zip(parts["test"], right, strict=True):
        each.setdefault(number[row], []).append(hit)
    found["category"] = {
        "accuracy": round(float(np.mean(right)), 4), "commonest": round(float(common), 4), "categories": len(kinds),
        "accuracy by concept": round(float(np.mean([np.mean(v) for v in each.values()])), 4),
    }  # fmt: skip
    return found | {"penalty": best}


def main() -> None:
    """Split, train and measure one seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--held-out", choices=("emoji", "concepts"), default="emoji", help="what is held out")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop then, with the best checkpoint so far")
    parser.add_argument("settings", nargs="*", help="settings of the run, such as recipe.steps=100")
    given = parser.parse_intermixed_args()
    rows = read_rows(given.data)
    parts, tables = split(rows, given.seed, given.held_out), given.out.with_name(given.out.name + "-data")
    write_tables(rows, parts, tables)
    vectors = read_vectors(given.vectors) if given.vectors else {}
    texts = [captions(rows[number]).replace("|", " ") for number in parts["train"]]
    learn_from = [*texts, *(row["name"] for row in rows if vectors), " ".join(vectors)]
    tokenizer = with_last_eos(learn_tokenizer(learn_from, "words", 40000))
    tokenizer.save(tables)
    settings: dict[str, object] = {
        "data.path": str(tables / "train.tsv"), "data.validation": str(tables / "validation.tsv"),
        "data.test": str(tables / "test.tsv"), "data.candidates": str(tables / "all.tsv"),
        "data.images": str(given.data / "noto_32x32.npz"), "tokenizer.file": str(tables / "tokenizer.json"),
        "recipe.seed": given.seed,
    }  # fmt: skip
    settings |= {key: json.loads(value) if value[:1] in "0123456789tf[" else value
                 for key, _, value in (word.partition("=") for word in given.settings)}  # fmt: skip
    run = prepare_task("clip", settings, out=given.out, config=Path(__file__).parents[1] / "recipes/emoji-clip.toml")
    if vectors:
        known = set_embedding(run.model, [tokenizer.token(id) for id in range(tokenizer.vocab_size)], vectors)
        print(f"{known:,} of {tokenizer.vocab_size:,} tokens have a pretrained vector", file=sys.stderr)
    print({part: len(numbers) for part, numbers in parts.items()}, run, file=sys.stderr)
    began = time.monotonic()
    for log in run.train():
        line = f"step {log.step}: loss {log.loss:.3f}, {log.seconds:.0f} s"
        print(
            line if log.validation is None else f"{line}, validation {log.validation:.3f}", file=sys.stderr, flush=True
        )
        if time.monotonic() - began > given.seconds:
            break
    found = {
        "seed": given.seed,
        "steps": run.logs[-1].step,
        "seconds": round(time.monotonic() - began),
        "parameters": run.parameters,
    }
    print(json.dumps(found | measure(given.out, given.data, rows, parts), indent=2))


if __name__ == "__main__":
    main()
