"""Small pictures with captions, and runs of a DALL-E on them that take a second."""

from pathlib import Path

import numpy as np

COLORS = {"red": (220, 30, 30), "green": (30, 180, 60), "blue": (40, 60, 220)}
SIDES = {"left": slice(0, 4), "right": slice(4, 8)}
AUTOENCODER = {
    "data.autoencoder_steps": 6, "data.batch_size": 4, "data.caption_length": 4, "tokenizer.kind": "words",
    "tokenizer.lowercase": False, "run.device": "cpu", "run.precision": "float32",
}  # fmt: skip
DECODER = {
    **AUTOENCODER, "model.dim": 16, "model.heads": 2, "model.layers": 1, "recipe.steps": 6, "recipe.warmup_steps": 1,
    "recipe.log_every": 1, "recipe.evaluate_every": 3, "recipe.save_every": 2,
}  # fmt: skip


def pictures(copies: int = 4) -> tuple[np.ndarray, list[str]]:
    """White pictures of 8 × 8 pixels with one half of a color, and what each shows."""
    random, found, captions = np.random.default_rng(0), [], []
    for _ in range(copies):
        for color, value in COLORS.items():
            for side, columns in SIDES.items():
                picture = np.full((8, 8, 3), 255, dtype=np.uint8)
                picture[:, columns] = np.clip(np.array(value) + random.integers(-20, 20, 3), 0, 255)
                found.append(picture)
                captions.append(f"{color} {side}")
    return np.stack(found), captions


def write_table(folder: Path, copies: int = 4) -> dict[str, object]:
    """The pictures and their captions as files, and the settings that name them."""
    pixels, captions = pictures(copies)
    np.savez(folder / "images.npz", images=pixels)
    rows = [f"{number}\t{caption}|a {caption} half\n" for number, caption in enumerate(captions)]
    for name, part in (("train.tsv", rows[6:]), ("validation.tsv", rows[:6])):
        (folder / name).write_text("image\tcaption\n" + "".join(part))
    return {
        "data.path": str(folder / "train.tsv"), "data.validation": str(folder / "validation.tsv"),
        "data.images": str(folder / "images.npz"), "data.separator": "|",
    }  # fmt: skip
