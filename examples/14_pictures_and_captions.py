"""Train a small CLIP on pictures of shapes and their captions, then search and classify pictures by texts."""

import sys
import tempfile
from pathlib import Path

import glassformer as gf
from glassformer.asking.retrieval import rank
from glassformer.data.drawn_shapes import drawn_shapes
from glassformer.training.tasks.clip import split_pairs

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 20  # 600 steps, two minutes, find most captions among 160
SETTINGS = {
    "data.batch_size": 64, "recipe.steps": STEPS, "recipe.warmup_steps": max(1, STEPS // 10), "recipe.log_every": 10,
    "recipe.evaluate_every": 200, "run.device": "cpu", "model.patch_size": 8, "model.image_layers": 2,
}  # fmt: skip

with tempfile.TemporaryDirectory() as name:
    folder = Path(name) / "clip"
    gf.train("clip", SETTINGS, out=folder)
    metrics = gf.evaluate(folder)
    print(f"the right caption is among the first 5 of {metrics.captions} for {metrics.recall_5:.0%} of the pictures,")
    print(f"by chance for {metrics.chance:.0%}")

    model = gf.load(folder)
    held = split_pairs(drawn_shapes(), 0.1, 0)[1]  # pictures that it was not trained on
    pictures, captions = list(held.pixels), held.first_captions

    # Pictures and texts have embeddings in the same space, so either finds the other.
    texts = model.embed(captions)
    for found in rank(model.embed(pictures[0]), texts, captions, top_k=3):
        print(f"{found.similarity:.2f}  {found.candidate}")
    print("it is", captions[0])
    best = rank(model.embed("a large red circle above a small blue square"), model.embed(pictures), captions, top_k=1)
    print("the nearest picture to a text is that of:", best[0].candidate)

    # Any labels are classes, without training on them: each becomes a text by a template.
    colors = ["red", "green", "blue", "yellow", "purple", "black"]
    answer = model.classify(pictures[0], labels=colors, template="a large {} circle above a large {} square")
    print(answer.label, {label: round(probability, 2) for label, probability in answer.probabilities.items()})
