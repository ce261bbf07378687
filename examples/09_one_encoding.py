"""One tokenization everywhere: a classifier answers alike in training, from its folder, and in transformers."""

import tempfile
from pathlib import Path

import torch

import glassformer as gf

ROWS = [
    ("question", "where is the station"),
    ("question", "what is your name"),
    ("question", "who are you"),
    ("statement", "the station is here"),
    ("statement", "my name is ana"),
    ("statement", "you are late"),
] * 8

with tempfile.TemporaryDirectory() as name:
    data, folder = Path(name) / "labels.tsv", Path(name) / "run"
    data.write_text("".join(f"{label}\t{number} {text}\n" for number, (label, text) in enumerate(ROWS)))
    settings = {
        "data.path": str(data), "data.max_length": 10, "tokenizer.kind": "words", "tokenizer.vocab_size": 80,
        "model.dim": 32, "model.layers": 1, "model.heads": 2, "recipe.steps": 60, "recipe.learning_rate": 0.003,
    }  # fmt: skip
    run = gf.train("classify", settings, out=folder)

    # What stands around a text is in tokenizer.json, where transformers finds it too.
    template = run.tokenizer.template
    print("before and after a text:", [*map(run.tokenizer.token, (*template.before, *template.after))])
    (ids,) = run.tokenizer.encode_inputs(["where is ana"], max_length=10)
    print("the model reads:", [run.tokenizer.token(id) for id in ids])

    opened = gf.load(folder)
    assert opened.tokenizer is not None and opened.labels is not None
    assert opened.tokenizer.encode_inputs(["where is ana"], max_length=10) == [ids]
    with torch.no_grad():
        before, after = run.model.eval()(torch.tensor([ids])), opened.model(torch.tensor([ids]))
    print("the same logits to the bit:", torch.equal(before, after))
    print("its answer:", opened.labels[int(after.argmax())])
    print(f"accuracy on its data: {gf.evaluate(folder, str(data)).accuracy:.2f}")
