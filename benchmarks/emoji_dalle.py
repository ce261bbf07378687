"""Train a DALL-E on emoji in a given time and let a CLIP that was trained apart name what it draws.

python benchmarks/emoji_dalle.py data/emoji runs/emoji-dalle --seconds 420
python benchmarks/emoji_dalle.py data/emoji runs/emoji-dalle --clip runs/emoji-clip --sheet docs/dalle-samples.png

The first command trains both stages and draws; the second judges the drawings and needs no GPU. With --clip the first
does both. `data/emoji` holds noto_32x32.npz (pictures) and captions.tsv.gz (names and keywords).
"""

import argparse
import gzip
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

import glassformer as gf
from glassformer.data.captions import read_pictures
from glassformer.data.png import contact_sheet, write_png
from glassformer.decoding.drawing import DrawingConfig, draw
from glassformer.inference.pair_embeddings import embed_images, embed_texts
from glassformer.inference.picture_tokens import decode_pictures, encode_pictures
from glassformer.training.config import resolve
from glassformer.training.run import Run, prepare_task

RECIPES = Path(__file__).parent.parent / "recipes"
HELD_OUT = 0.05  # of the names, which the decoder does not see
TRIAL = 40  # steps by which the time of a step is measured
FIRST_STAGE = 0.35  # of the time
PROMPTS, EACH = 200, 4  # drawn to be judged, and pictures of each
OF_SHOWN = 8  # pictures of each prompt of the sheet, of which it has the best
GUIDANCE = (1.0, 3.0, 6.0)
SHOWN = (
    "red heart", "grinning face", "dog face", "cat face", "pizza", "red apple", "banana", "soccer ball", "sun",
    "cloud", "rainbow", "fire", "rocket", "automobile", "house", "evergreen tree", "cactus", "tulip", "rose",
    "penguin", "pig face", "frog", "tropical fish", "octopus", "butterfly", "hamburger", "hot beverage",
    "birthday cake", "wrapped gift", "balloon", "party popper", "musical note", "guitar", "trumpet", "telephone",
    "laptop", "television", "light bulb", "key", "locked", "bell", "envelope", "books", "pencil", "scissors",
    "hammer", "gem stone", "crown", "top hat", "t-shirt", "jeans", "thumbs up", "waving hand", "clapping hands",
    "skull", "ghost", "alien", "robot", "pile of poo", "green heart", "yellow heart", "flag: japan", "flag: france",
    "stop sign",
)  # fmt: skip
Row = dict[str, str]


def read_rows(folder: Path) -> list[Row]:
    """The rows of the captions in lower case, without variants by skin tone."""
    with gzip.open(folder / "captions.tsv.gz", "rt", encoding="utf-8") as file:
        heading, *lines = (line.rstrip("\n").split("\t") for line in file)
    rows = [dict(zip(heading, line, strict=True)) for line in lines]
    rows = [row | {"name": row["name_en"].lower(), "words": row["keywords_en"].lower()} for row in rows]
    return [row for row in rows if not row["skin_tone"]]


def write_tables(rows: list[Row], folder: Path) -> dict[str, list[Row]]:
    """Tables of the training and the held-out names, of which the sheet shows none."""
    folder.mkdir(parents=True, exist_ok=True)
    order = np.random.default_rng(0).permutation(len(rows)).tolist()
    free = [number for number in order if rows[number]["name"] not in SHOWN]
    held = set(free[: round(HELD_OUT * len(rows))])
    parts = {
        "train": [row for i, row in enumerate(rows) if i not in held],
        "validation": [rows[i] for i in sorted(held)],
    }
    for part, theirs in parts.items():
        lines = [f"{row['index']}\t{captions(row)}\n" for row in theirs]
        (folder / f"{part}.tsv").write_text("image\tcaption\n" + "".join(lines), encoding="utf-8")
    return parts


def captions(row: Row) -> str:
    """The name, and the name with keywords, as captions of a picture."""
    words = [word for word in row["words"].split("|") if word not in row["name"]]
    return "|".join([row["name"], f"{row['name']}, {' '.join(words[:4])}"] if words else [row["name"]])


def train(task: str, out: Path, settings: dict[str, object], seconds: float) -> Run:
    """A run with as many steps as fit into the time, at most those of its recipe."""
    recipe = RECIPES / f"emoji-{'dalle' if task == 'dalle' else 'tokens'}.toml"
    began = time.monotonic()
    given = {key: value for key, value in settings.items() if not key.startswith("recipe.steps")}
    short = {
        "recipe.steps": TRIAL,
        "recipe.warmup_steps": 1,
        "recipe.log_every": TRIAL // 2,
        "recipe.evaluate_every": TRIAL,
    }
    logs = list(prepare_task(task, {**given, **short}, config=recipe).train())
    step = (logs[-1].seconds - logs[0].seconds) / (TRIAL - TRIAL // 2)
    left, most = seconds - 2 * (time.monotonic() - began), resolve(file=recipe).settings.recipe.steps
    steps = max(min(most, int(0.9 * left / step)), 2 * TRIAL)
    print(f"{task}: {1000 * step:.0f} ms a step, {steps:,} steps", file=sys.stderr, flush=True)
    schedule = {
        "recipe.steps": steps,
        "recipe.warmup_steps": max(steps // 25, 1),
        "recipe.evaluate_every": steps,
        "recipe.save_every": max(steps // 2, 1),
    }
    run = prepare_task(task, {**given, **schedule}, config=recipe, out=out)
    for log in run.train():
        line = f"{task}: step {log.step}: loss {log.loss:.4f}, {log.seconds:.0f} s"
        print(
            line if log.validation is None else f"{line}, validation {log.validation:.4f}", file=sys.stderr, flush=True
        )
    return run


def train_both(data: Path, out: Path, seconds: float, settings: dict[str, object]) -> dict[str, object]:
    """Both stages, and what they reach on held-out pictures."""
    write_tables(read_rows(data), out / "data")
    began, tokens = time.monotonic(), out / "tokens"
    images = str(data / "noto_32x32.npz")
    of_pictures = {k.removeprefix("tokens."): v for k, v in settings.items() if k.startswith("tokens.")}
    of_text = {k.removeprefix("dalle."): v for k, v in settings.items() if k.startswith("dalle.")}
    first = train("image-tokens", tokens, {"data.path": images, **of_pictures}, FIRST_STAGE * seconds)
    found: dict[str, object] = {
        "autoencoder": vars(first.evaluate()),
        "autoencoder seconds": round(time.monotonic() - began),
    }
    paths = {"data.path": str(out / "data/train.tsv"), "data.validation": str(out / "data/validation.tsv")}
    paths |= {"data.images": images, "data.autoencoder": str(tokens)}
    second = train("dalle", out / "dalle", {**paths, **of_text}, seconds - (time.monotonic() - began))
    found |= {"decoder": vars(second.evaluate()), "seconds": round(time.monotonic() - began)}
    return found | {"parameters": [first.parameters, second.parameters]}


def draw_all(data: Path, out: Path, count: int) -> None:
    """Draw what is judged and shown, and keep it in a file."""
    loaded = gf.load(out / "dalle", "cuda" if torch.cuda.is_available() else "cpu")
    parts = write_tables(read_rows(data), out / "data")
    random = np.random.default_rng(1)
    prompts = {part: [rows[i]["name"] for i in random.permutation(len(rows))[:count]] for part, rows in parts.items()}
    arrays: dict[str, np.ndarray] = {}
    for part, names in prompts.items():
        for guidance in GUIDANCE:
            config = DrawingConfig(n=EACH, guidance=guidance, top_p=0.95)
            pixels = draw(loaded.model, loaded.required_tokenizer(), names, config)
            arrays[f"{part} {guidance:g}"] = pixels.reshape(len(names), EACH, *pixels.shape[1:])
    config = DrawingConfig(n=OF_SHOWN, guidance=GUIDANCE[1], top_p=0.95)
    pixels = draw(loaded.model, loaded.required_tokenizer(), SHOWN, config)
    arrays["shown"] = pixels.reshape(len(SHOWN), OF_SHOWN, *pixels.shape[1:])
    np.savez_compressed(out / "drawings.npz", **arrays)
    (out / "prompts.json").write_text(json.dumps(prompts), encoding="utf-8")


def judge(data: Path, out: Path, clip: Path, sheet: Path | None) -> dict[str, object]:
    """What a CLIP calls the drawings, and for comparison the pictures themselves and their reconstructions."""
    rows, judged = read_rows(data), gf.load(clip)
    names, kinds = [row["name"] for row in rows], sorted({row["category"] for row in rows})
    kind_of = {row["name"]: kinds.index(row["category"]) for row in rows}
    picture_of = {row["name"]: int(row["index"]) for row in rows}
    text = embed_texts(judged.model, judged.required_tokenizer(), names)
    kind_text = embed_texts(judged.model, judged.required_tokenizer(), [kind.lower() for kind in kinds])
    prompts = json.loads((out / "prompts.json").read_text())
    pictures, autoencoder = read_pictures(data / "noto_32x32.npz"), gf.load(out / "tokens").model

    def agreement(prompts: list[str], drawn: np.ndarray) -> dict[str, float]:
        """How often the prompt is the CLIP's first name, among its first five, and of the right category."""
        image = embed_images(judged.model, drawn.reshape(-1, *drawn.shape[2:]))
        own = torch.tensor([names.index(name) for name in prompts]).repeat_interleave(drawn.shape[1])
        best = (image @ text.T).topk(5, -1).indices
        kind = (image @ kind_text.T).argmax(-1)
        right = torch.tensor([kind_of[name] for name in prompts]).repeat_interleave(drawn.shape[1])
        hits = {"name": best[:, 0] == own, "name in 5": (best == own[:, None]).any(-1), "category": kind == right}
        return {what: round(float(hit.float().mean()), 4) for what, hit in hits.items()}

    found: dict[str, object] = {
        "chance": {"name": 1 / len(names), "name in 5": 5 / len(names), "category": 1 / len(kinds)},
        "commonest category": max(np.bincount(list(kind_of.values()))) / len(names),
    }
    with np.load(out / "drawings.npz") as arrays:
        for part, theirs in prompts.items():
            real = pictures[[picture_of[name] for name in theirs]]
            again = decode_pictures(autoencoder, torch.from_numpy(encode_pictures(autoencoder, real)))
            found[f"{part}: pictures themselves"] = agreement(theirs, real[:, None])
            found[f"{part}: through the autoencoder"] = agreement(theirs, again[:, None])
            for guidance in GUIDANCE:
                found[f"{part}: drawn, guidance {guidance:g}"] = agreement(theirs, arrays[f"{part} {guidance:g}"])
            shuffled = arrays[f"{part} {GUIDANCE[1]:g}"][np.random.default_rng(2).permutation(len(theirs))]
            found[f"{part}: drawn for other prompts"] = agreement(theirs, shuffled)
        if sheet is not None:
            shown = arrays["shown"]
            scores = [
                embed_images(judged.model, each) @ embed_texts(judged.model, judged.required_tokenizer(), [name])[0]
                for name, each in zip(SHOWN, shown, strict=True)
            ]
            best = np.stack([each[int(score.argmax())] for each, score in zip(shown, scores, strict=True)])
            write_png(sheet, contact_sheet(best, 8, 3, 6))
            write_png(sheet.with_name(f"{sheet.stem}-first.png"), contact_sheet(shown[:, 0], 8, 3, 6))
    return found


def main() -> None:
    """Train where there is no model yet, draw, and judge where there is a CLIP."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=420)
    parser.add_argument("--clip", type=Path, help="folder of a CLIP on emoji, of another run")
    parser.add_argument("--sheet", type=Path, help="PNG file for a sheet of 64 drawings")
    parser.add_argument("--prompts", type=int, default=PROMPTS)
    parser.add_argument("settings", nargs="*", help="such as tokens.model.features=16 dalle.model.dim=64")
    given = parser.parse_intermixed_args()
    found: dict[str, object] = {}
    if not (given.out / "dalle" / "config.json").exists():
        words = dict(word.split("=", 1) for word in given.settings)
        found |= train_both(given.data, given.out, given.seconds, {k: json.loads(v) for k, v in words.items()})
    if not (given.out / "drawings.npz").exists():
        began = time.monotonic()
        draw_all(given.data, given.out, given.prompts)
        found["seconds of drawing"] = round(time.monotonic() - began)
    if given.clip is not None:
        found |= judge(given.data, given.out, given.clip, given.sheet)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
