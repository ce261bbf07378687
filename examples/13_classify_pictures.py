"""Train a small Vision Transformer on the built-in digits, classify a picture, and draw where its heads look."""

import tempfile
from pathlib import Path

import glassformer as gf
from glassformer.data.image_arrays import digits

settings = {"recipe.steps": 100, "recipe.warmup_steps": 10, "recipe.ema_decay": 0.0, "run.device": "cpu"}
with tempfile.TemporaryDirectory() as scratch:
    folder = Path(scratch) / "digits"
    run = gf.train("image", settings, out=folder)
    print(f"{run.parameters:,} parameters; a picture is {run.model.sequence_length} patches")

    metrics = gf.evaluate(folder)
    print(f"accuracy on {metrics.examples} held-out digits: {metrics.accuracy:.1%}")

    loaded = gf.load(folder)
    pictures = digits()
    for number in (0, 1, 2):  # a path such as "cat.png" works as well
        found = loaded.classify(pictures.pixels[number])
        print(f"a {pictures.labels[number]} looks like a {found.label}, with probability {found.probability:.2f}")

    page = loaded.picture_attention(pictures.pixels[0])
    (Path(scratch) / "attention.html").write_text(page)
    print(f"attention of {page.count('<svg')} heads drawn on the picture, {len(page):,} characters of HTML")
