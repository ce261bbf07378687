"""Train a small DALL-E on pictures of shapes and their captions, then draw from text into a PNG file."""

import sys
import tempfile
from pathlib import Path

import torch

import glassformer as gf
from glassformer.data.drawn_shapes import drawn_shapes
from glassformer.data.png import contact_sheet, write_png
from glassformer.inference.picture_tokens import decode_pictures, encode_pictures

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 4  # 600 steps of each stage, some minutes, draw what is asked
OUT = Path(sys.argv[2]) if len(sys.argv) > 2 else None  # a PNG file
SETTINGS = {
    "data.autoencoder_steps": STEPS, "data.batch_size": 16, "recipe.steps": STEPS, "recipe.warmup_steps": 1,
    "recipe.log_every": 50, "run.device": "cpu", "model.dim": 64, "model.layers": 2,
}  # fmt: skip

with tempfile.TemporaryDirectory() as name:
    folder = Path(name) / "dalle"
    gf.train("dalle", SETTINGS, out=folder)  # first an autoencoder, then the decoder; one folder holds both
    metrics = gf.evaluate(folder)
    print(f"a token of a picture is one of about {metrics.perplexity:.0f} that the model thinks possible")

    loaded = gf.load(folder)
    model = loaded.model

    # A picture is a grid of tokens, and the tokens are a picture again.
    picture = drawn_shapes().pixels[:1]
    codes = encode_pictures(model.autoencoder, picture)
    side = model.config.autoencoder.side
    print(f"the first row of {side} × {side} tokens:", codes[0, :side].tolist())
    copy = decode_pictures(model.autoencoder, torch.from_numpy(codes))
    print(f"pixels are off by {abs(copy.astype(int) - picture).mean():.0f} of 255 on average")

    # Sample tokens after a caption; guidance exaggerates what the caption changes.
    drawn = loaded.draw("a large red circle above a small blue square", n=4, guidance=3.0, seed=1)
    print(f"{len(drawn)} pictures of {drawn.shape[1]} × {drawn.shape[2]} pixels")
    target = OUT or Path(name) / "drawn.png"
    write_png(target, contact_sheet(drawn, columns=4, scale=4))
    print(f"{target.name} has {target.stat().st_size:,} bytes")
