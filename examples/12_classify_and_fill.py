"""Fill gaps with a masked language model, then fine-tune it into a classifier and classify texts."""

import tempfile
from pathlib import Path

import glassformer as gf

ANIMALS, TOOLS = ("cat", "dog", "fox", "crow"), ("saw", "drill", "hammer", "chisel")
SENTENCES = [
    *(("animal", f"the {name} sleeps in the {where}") for name in ANIMALS for where in ("barn", "field", "house")),
    *(("tool", f"the {name} cuts through the {what}") for name in TOOLS for what in ("wood", "wall", "stone")),
]
TINY = {"data.max_length": 12, "data.batch_size": 16, "recipe.learning_rate": 0.004, "run.device": "cpu"}
SHAPE = {"tokenizer.kind": "words", "model.dim": 32, "model.layers": 2, "model.heads": 2, "model.ffn_dim": 64}

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    (folder / "text.txt").write_text("".join(f"{text}\n" for _, text in SENTENCES * 8))
    (folder / "labels.tsv").write_text("".join(f"{label}\t{text}\n" for label, text in SENTENCES))

    # A masked language model needs text alone. `fill` gives the most likely tokens for each [MASK] of a text.
    start = {"data.path": str(folder / "text.txt"), "recipe.steps": 500}
    gf.train("masked", {**TINY, **SHAPE, **start}, out=folder / "masked")
    model = gf.load(folder / "masked")
    for text in ("the fox [MASK] in the barn", "the saw cuts [MASK] the wood"):
        for answer in model.fill(text, top_k=3):
            print(text, {token: round(probability, 2) for token, probability in answer.probabilities.items()})

    # A classifier that starts from it keeps its body and its tokenizer; the head is new.
    start = {"data.path": str(folder / "labels.tsv"), "run.init": str(folder / "masked"), "recipe.steps": 60}
    gf.train("classify", {**TINY, **start}, out=folder / "classifier")
    classifier = gf.load(folder / "classifier")
    for answer in classifier.classify(["the dog sleeps in the barn", "the drill cuts through the stone"]):
        print(f"{answer.label}, probability {answer.probability:.2f}, of {sorted(answer.probabilities)}")
    try:
        classifier.fill("the [MASK] sleeps")
    except gf.GlassformerError as error:
        print("error:", error)
