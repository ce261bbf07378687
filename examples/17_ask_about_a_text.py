"""Train an encoder to find answers in a text, ask it, and see how an answer is chosen among all spans."""

import tempfile
from pathlib import Path

import torch

import glassformer as gf
from glassformer.data.stories import stories

# A few seconds of training, so few of the answers are right; recipes/answer.toml has a model that has learned it.
TINY = {"recipe.steps": 12, "recipe.warmup_steps": 3, "data.max_length": 96, "run.device": "cpu"}
SHAPE = {"model.dim": 32, "model.layers": 2, "model.heads": 2, "model.ffn_dim": 64, "tokenizer.kind": "words"}

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)

    # Data is a table with question, context and answer. Here it is a part of the built-in stories.
    rows = [f"{each.question}\t{each.context}\t{each.answers[0]}\n" for each in stories("test")[:160]]
    (folder / "questions.tsv").write_text("".join(rows))
    run = gf.train("answer", {**TINY, **SHAPE, "data.path": str(folder / "questions.tsv")}, out=folder / "run")
    for score in run.evaluate().scores:
        print(f"{score.name}: exact {score.exact:.2f}, F1 {score.f1:.2f}")

    # A question about a text: the answer, its probability, and its characters in the text.
    model = gf.load(folder / "run")
    text = "Anna gave the  key to Ben. Then Ben put the key in the attic."
    found = model.answer("Where is the key?", text)
    assert text[found.start : found.end] == found.answer
    print(f"{found.answer!r} from character {found.start} to {found.end}, probability {found.probability:.3f}")

    # Several questions, each about its own text or all about one.
    for answer in model.answer(["Who gave the key to Ben?", "What did Anna give to Ben?"], text):
        print(repr(answer.answer))

    # How it is chosen: every span has the logit of its start plus that of its end, and no end comes before its start.
    logits = torch.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 1.5]])
    print(gf.equations.span_scores(logits, n=2))
    print("the best span:", gf.equations.best_span(logits, n=2).tolist())
