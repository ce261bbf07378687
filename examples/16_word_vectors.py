"""Word vectors: train them by skip-gram, ask for neighbors and analogies, draw a map, and start a model from them."""

import tempfile
from pathlib import Path

import glassformer as gf
from glassformer.asking.similar import word_map
from glassformer.data.phrase_book import phrase_book

CPU = {"run.device": "cpu", "recipe.log_every": 100}

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    sentences = [english for english, _ in phrase_book(4000)]
    (folder / "text.txt").write_text("\n".join(sentences))

    # Skip-gram needs text alone: words that have the same neighbors get similar vectors.
    words = {"data.path": str(folder / "text.txt"), "data.window": 3, "model.dim": 32, "recipe.steps": 300}
    run = gf.train("skip-gram", {**CPU, **words, "recipe.learning_rate": 0.02}, out=folder / "words")
    print(f"loss {run.evaluate().loss:.3f} on held-out pairs of words")
    model = gf.load(folder / "words")
    for word in ("bread", "teacher", "red"):
        print(word, [(near.text, round(near.cosine, 2)) for near in model.similar(word, top_k=4)])
    print("he is to his as … is to her:", model.analogy("he", "his", "her", top_k=1)[0].text)

    # A map of words by principal components, and the vectors as a file that other tools read.
    vectors = model.vectors()
    chosen = [word for word in ("bread", "milk", "apple", "red", "blue", "teacher", "doctor") if word in vectors]
    (folder / "map.svg").write_text(word_map(vectors, chosen))
    vectors.save(folder / "words.vec")
    print(f"{len(gf.load_vectors(folder / 'words.vec').words)} words in words.vec")

    # Embeddings of another model start from the vectors, here frozen; GloVe or fastText files do as well.
    table = "".join(f"{'question' if text.endswith('?') else 'statement'}\t{text}\n" for text in sentences[:400])
    (folder / "labels.tsv").write_text(table)
    classify = {
        "data.path": str(folder / "labels.tsv"), "tokenizer.kind": "words", "model.embedding_dim": 32, "model.dim": 32,
        "model.heads": 2, "model.layers": 1, "recipe.steps": 40, "data.max_length": 16,
        "run.vectors": str(folder / "words.vec"), "run.freeze": "embedding",
    }  # fmt: skip
    run = gf.train("classify", {**CPU, **classify})
    print(f"accuracy {vars(run.evaluate())['accuracy']:.2f} with embeddings that start from the vectors")
    try:
        model.similar("bred")
    except gf.GlassformerError as error:
        print("error:", error)
