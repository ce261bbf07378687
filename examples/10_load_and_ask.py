"""Load a model and use it: generate, stream, classify, trace and save, with keyword settings."""

import tempfile
from pathlib import Path

import glassformer as gf

STORY = "Once there was a fox. The fox saw a crow. The crow had a piece of cheese. Once the fox got the cheese. " * 40
LABELS = [
    ("question", "where is the fox"),
    ("question", "who has the cheese"),
    ("question", "what did the crow say"),
    ("statement", "the fox is here"),
    ("statement", "the crow has it"),
    ("statement", "the crow said no"),
]
TINY = {"model.dim": 32, "model.layers": 1, "model.heads": 2, "recipe.learning_rate": 0.01, "run.device": "cpu"}

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    (folder / "story.txt").write_text(STORY)
    (folder / "labels.tsv").write_text("".join(f"{label}\t{text}\n" for label, text in LABELS * 8))
    text = {"data.path": str(folder / "story.txt"), "tokenizer.kind": "words", "tokenizer.vocab_size": 60}
    sizes = {"model.context": 32, "data.max_length": 16, "data.batch_size": 8, "recipe.steps": 80}
    gf.train("gpt", {**TINY, **text, **sizes}, out=folder / "gpt")
    text["data.path"] = str(folder / "labels.tsv")
    gf.train("classify", {**TINY, **text, "data.max_length": 10, "recipe.steps": 60}, out=folder / "classifier")

    # A text in, a completion out; a list in, a list out. Settings are keywords, or a GenerationConfig.
    model = gf.load(folder / "gpt")
    print("greedy: Once", model.generate("Once", max_new_tokens=8).text)
    sampled = gf.GenerationConfig(max_new_tokens=8, temperature=0.8, top_k=10, seed=1)
    for completion in model.generate(["The fox", "The crow"], sampled):
        print(f"sampled, log-probability {completion.score:.2f}:", completion.text)
    print("streamed:", end="")
    for chunk in model.stream("The crow", max_new_tokens=8):
        print(chunk.text, end="|")

    classifier = gf.load(folder / "classifier")
    for answer in classifier.classify(["where is the cheese", "the fox has it"]):
        print(f"\n{answer.label}, probability {answer.probability:.2f}", end="")

    # Every step of a forward pass, with the words of the text as labels.
    trace = model.trace("The fox saw a crow", layer=0)
    weights = trace["layers.0.attention.weights"]
    print(f"\n{len(trace.steps)} steps; {weights.name}: {weights.equation.latex}")
    print("tokens:", trace.tokens["ids"])

    model.save(folder / "copy")
    print("the copy says the same:", gf.load(folder / "copy").generate("Once").text == model.generate("Once").text)
    try:
        model.generate("Once", max_tokens=8)
    except gf.GlassformerError as error:
        print("error:", error)
