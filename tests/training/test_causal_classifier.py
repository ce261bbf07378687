"""A language model fine-tuned on labels: its body is kept, and transformers reads the same classifier."""

from pathlib import Path

import pytest
import torch
import transformers

import glassformer as gf
from glassformer.errors import ConfigError, DecodingError
from glassformer.models.causal_classifier import CausalClassifier
from glassformer.training.config import resolve
from glassformer.training.evaluate import evaluate
from glassformer.training.registry import families, tasks_for
from glassformer.training.run import prepare_task, train_task

TINY = {"model.dim": 16, "model.layers": 1, "model.heads": 2, "recipe.steps": 3, "data.max_length": 16}
SIZES = {"gpt": {}, "llama": {"model.ffn_dim": 24}, "modern": {}}


def labels(folder: Path) -> str:
    file = folder / "labels.tsv"
    rows = [
        f"{word}\t{a} {word} {b}"
        for word in ("good", "bad") for a in ("the", "my", "a", "that") for b in ("soup", "day", "book", "dog", "song")
    ]  # fmt: skip
    file.write_text("label\ttext\n" + "\n".join(rows) + "\n")
    return str(file)


def language_model(folder: Path, family: str) -> str:
    (folder / "text.txt").write_text("the good and the bad soup number 1 2 3 4 5 6 7 8 9\n" * 60)
    settings = {**TINY, **SIZES[family], "model.family": family, "data.path": str(folder / "text.txt")}
    train_task("gpt", {**settings, "tokenizer.vocab_size": 300}, out=folder / "lm", size="tiny")
    return str(folder / "lm")


@pytest.mark.parametrize("family", SIZES)
def test_fine_tuning_keeps_the_body_and_every_reader_agrees(family: str, tmp_path: Path) -> None:
    start, data = language_model(tmp_path, family), labels(tmp_path)
    settings = {"run.init": start, "data.path": data, "data.max_length": 16, "recipe.steps": 3}
    run = prepare_task("classify", settings, size="tiny")
    lm = gf.load(start).model.state_dict()
    assert isinstance(run.model, CausalClassifier)
    body = run.model.body.state_dict()
    assert all(torch.equal(body[name], lm[name]) for name in body) and body.keys() == lm.keys() - {"output.weight"}
    train_task("classify", settings, out=tmp_path / "run", size="tiny")
    loaded = gf.load(tmp_path / "run")
    texts = ["the good soup", "the bad soup number 17", "good"]
    found = loaded.classify(texts)
    alone = [loaded.classify(text) for text in texts]
    for one, other in zip(found, alone, strict=True):  # padding changes nothing
        assert one.label == other.label and abs(one.probability - other.probability) < 1e-5
    assert evaluate(tmp_path / "run", device="cpu").examples == 4  # pyright: ignore[reportAttributeAccessIssue]
    if family == "modern":  # transformers has no such model
        return
    loaded.save(tmp_path / "exported")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "exported", local_files_only=True)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "exported", local_files_only=True
    )
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    logits = model(batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    for row, one in zip(logits.softmax(-1).tolist(), found, strict=True):
        assert model.config.id2label[row.index(max(row))] == one.label
        assert abs(max(row) - one.probability) < 1e-5
    assert gf.load(tmp_path / "exported").classify(texts[0]) == found[0]


def test_a_classifier_from_scratch_trains_and_writes_no_text(tmp_path: Path) -> None:
    settings = {**TINY, "model.family": "gpt", "data.path": labels(tmp_path), "recipe.steps": 40}
    run = train_task("classify", {**settings, "recipe.learning_rate": 0.01}, out=tmp_path / "run", size="tiny")
    assert run.evaluate().accuracy == 1.0  # pyright: ignore[reportAttributeAccessIssue]
    assert tasks_for(run.model) == ["classify"]
    with pytest.raises(DecodingError, match="CausalClassifier does not write text"):
        gf.load(tmp_path / "run").generate("the")
    with pytest.raises(ConfigError, match="run.init holds CausalClassifier, which this task does not train"):
        prepare_task("gpt", {"run.init": str(tmp_path / "run"), "data.path": labels(tmp_path)}, size="tiny")


def test_lora_adapts_a_language_model_to_labels(tmp_path: Path) -> None:
    start, data = language_model(tmp_path, "gpt"), labels(tmp_path)
    settings = {"run.init": start, "data.path": data, "data.max_length": 16, "recipe.steps": 3, "lora.rank": 2}
    train_task("classify", {**settings, "lora.save": "adapter"}, out=tmp_path / "run", size="tiny")
    assert isinstance(gf.load(tmp_path / "run").model, CausalClassifier)
    assert gf.load(tmp_path / "run").classify("the good soup").label in ("good", "bad")


def test_families_of_the_tasks() -> None:
    assert {"encoder", "gpt", "llama", "modern"} <= set(families("classify"))
    assert "encoder" not in families("chat") and "rnn" not in families("classify")
    assert resolve("classify", words=["model.family=gpt"]).settings.model.head == "classifier"  # pyright: ignore
